// From a fused q|k|v row of each token to attention's layout, and back: RMSNorm of query and key heads if a
// norm is given, rotary embedding of the first 2 · half elements of a head (first half with second half).
//
// A head is in the core's buffer as parts that start at multiples of 32 bytes: first half, second half, the
// rest that is not rotated. If halves are multiples of 16 elements, the parts are adjacent and count as one.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

struct HeadNumbers {
  uint32_t tokens, length, heads, kv_heads, dim, half, norms;  // norms: 1 the query's, 2 the key's
  float eps;
};

constexpr uint32_t kParts = 3;

template <typename T>
class HeadLines {
 protected:
  __aicore__ inline void InitHeads(const HeadNumbers& numbers) {
    n_ = numbers;
    const uint32_t rest = n_.dim - 2 * n_.half, longest = n_.half > rest ? n_.half : rest;
    const bool even = n_.half % 16 == 0;
    step_ = even ? n_.half : (longest + 15) / 16 * 16;
    parts_ = even ? 1 : kParts;
    span_ = even ? (n_.dim + 15) / 16 * 16 : kParts * step_;
    width_ = (n_.heads + 2 * n_.kv_heads) * n_.dim;
    const uint32_t bytes = span_ * sizeof(float);
    pipe.InitBuffer(in, 2, bytes);
    pipe.InitBuffer(out, 2, bytes);
    pipe.InitBuffer(statistics, 1, 64);
    pipe.InitBuffer(values, bytes);
    pipe.InitBuffer(products, bytes);
    pipe.InitBuffer(turned, bytes);
    pipe.InitBuffer(norms, 2 * bytes);
    pipe.InitBuffer(cosines, (n_.half + 15) / 16 * 64 + 64);
    pipe.InitBuffer(sines, (n_.half + 15) / 16 * 64 + 64);
    pipe.InitBuffer(total, 64);
  }

  struct Part {
    uint32_t place, at, count;  // offset in the buffer, offset in the head, elements
  };
  __aicore__ inline Part PartOf(uint32_t i) const {
    if (parts_ == 1) return {0, 0, n_.dim};
    return {i * step_, i * n_.half, i < 2 ? n_.half : n_.dim - 2 * n_.half};
  }
  template <typename Work>
  __aicore__ inline void EachPart(const Work& work) const {
    for (uint32_t i = 0; i < parts_; ++i) {
      const Part part = PartOf(i);
      if (part.count > 0) work(part, static_cast<int32_t>(part.count));
    }
  }

  // A head or a norm, in fp32.
  __aicore__ inline void LoadHead(const GlobalTensor<T>& from, const LocalTensor<float>& wide) {
    LocalTensor<T> loaded = in.AllocTensor<T>();
    EachPart([&](const Part& part, int32_t) { CopyIn(loaded[part.place], from[part.at], part.count); });
    in.EnQue(loaded);
    loaded = in.DeQue<T>();
    EachPart([&](const Part& part, int32_t) { WidenInto(wide[part.place], loaded[part.place], part.count); });
    in.FreeTensor(loaded);
  }
  __aicore__ inline void StoreHead(const GlobalTensor<T>& to, const LocalTensor<float>& wide) {
    LocalTensor<T> narrow = out.AllocTensor<T>();
    PipeBarrier<PIPE_V>();
    EachPart([&](const Part& part, int32_t n) {
      if constexpr (IsFloat<T>::value) {
        Muls(narrow[part.place], wide[part.place], 1.0f, n);
      } else {
        Narrow(narrow[part.place], wide[part.place], part.count);
      }
    });
    out.EnQue(narrow);
    narrow = out.DeQue<T>();
    EachPart([&](const Part& part, int32_t) { CopyOut(to[part.at], narrow[part.place], part.count); });
    out.FreeTensor(narrow);
  }
  __aicore__ inline void LoadTable(const GlobalTensor<float>& cosine, const GlobalTensor<float>& sine, uint64_t token) {
    if (n_.half == 0) return;
    LoadWide(in, cosine[token * n_.half], cosines.Get<float>(), n_.half);
    LoadWide(in, sine[token * n_.half], sines.Get<float>(), n_.half);
  }
  // sums[0] = Σ a · b over the head; `products` is scratch.
  __aicore__ inline void Dot(const LocalTensor<float>& sums, const LocalTensor<float>& a, const LocalTensor<float>& b) {
    LocalTensor<float> product = products.Get<float>();
    Duplicate(sums, 0.0f, 8);
    EachPart([&](const Part& part, int32_t n) {
      PipeBarrier<PIPE_V>();
      Mul(product[part.place], a[part.place], b[part.place], n);
      PipeBarrier<PIPE_V>();
      ReduceSum(product[part.place], product[part.place], product, n);
      PipeBarrier<PIPE_V>();
      Add(sums, sums, product[part.place], 1);
    });
  }
  // Rotates by the token's angles; by their negatives if `back`. The rest of the head is copied.
  __aicore__ inline void Turn(const LocalTensor<float>& from, const LocalTensor<float>& to, bool back) {
    const int32_t half = static_cast<int32_t>(n_.half), rest = static_cast<int32_t>(n_.dim - 2 * n_.half);
    LocalTensor<float> cosine = cosines.Get<float>(), sine = sines.Get<float>(), product = products.Get<float>();
    PipeBarrier<PIPE_V>();
    Mul(to, from, cosine, half);
    Mul(product, from[step_], sine, half);
    PipeBarrier<PIPE_V>();
    if (back) {
      Add(to, to, product, half);
    } else {
      Sub(to, to, product, half);
    }
    Mul(to[step_], from[step_], cosine, half);
    PipeBarrier<PIPE_V>();
    Mul(product, from, sine, half);
    PipeBarrier<PIPE_V>();
    if (back) {
      Sub(to[step_], to[step_], product, half);
    } else {
      Add(to[step_], to[step_], product, half);
    }
    Muls(to[2 * step_], from[2 * step_], 1.0f, rest);
  }
  __aicore__ inline LocalTensor<float> NormOf(bool key) { return norms.Get<float>()[key ? span_ : 0]; }
  __aicore__ inline bool HasNorm(bool key) const { return (n_.norms & (key ? 2u : 1u)) != 0; }

  // The offset of head h of a token in attention's layout.
  __aicore__ inline uint64_t QueryPlace(uint64_t token, uint32_t h) const {
    const uint32_t group = n_.heads / n_.kv_heads;
    const uint64_t row = token / n_.length, position = token % n_.length;
    return (((row * n_.kv_heads + h / group) * n_.length + position) * group + h % group) * n_.dim;
  }
  __aicore__ inline uint64_t KeyPlace(uint64_t token, uint32_t h) const {
    const uint64_t row = token / n_.length, position = token % n_.length;
    return ((row * n_.kv_heads + h) * n_.length + position) * n_.dim;
  }

  TPipe pipe;
  InQueue in;
  OutQueue out, statistics;
  TBuf<> values, products, turned, norms, cosines, sines, total;
  HeadNumbers n_;
  uint32_t step_, parts_, span_, width_;
};

template <typename T>
class SplitHeads : HeadLines<T> {
 public:
  __aicore__ inline void Run(GM_ADDR qkv, GM_ADDR query_norm, GM_ADDR key_norm, GM_ADDR cosine, GM_ADDR sine,
                             GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR scales, HeadNumbers numbers) {
    this->InitHeads(numbers);
    const HeadNumbers& n = this->n_;
    const uint64_t tokens = n.tokens;
    const GlobalTensor<T> lines = GlobalOf<T>(qkv, tokens * this->width_);
    const GlobalTensor<T> queries = GlobalOf<T>(query, tokens * n.heads * n.dim);
    const GlobalTensor<T> keys = GlobalOf<T>(key, tokens * n.kv_heads * n.dim);
    const GlobalTensor<T> all_values = GlobalOf<T>(value, tokens * n.kv_heads * n.dim);
    const GlobalTensor<float> cosines = GlobalOf<float>(cosine, tokens * n.half),
                              sines = GlobalOf<float>(sine, tokens * n.half);
    scales_ = GlobalOf<float>(scales, tokens * (n.heads + n.kv_heads));
    const Share share = MyShare(n.tokens);
    if (share.begin == share.end) return;
    if (this->HasNorm(false)) this->LoadHead(GlobalOf<T>(query_norm, n.dim), this->NormOf(false));
    if (this->HasNorm(true)) this->LoadHead(GlobalOf<T>(key_norm, n.dim), this->NormOf(true));
    for (uint64_t token = share.begin; token < share.end; ++token) {
      this->LoadTable(cosines, sines, token);
      const GlobalTensor<T> line = lines[token * this->width_];
      const uint64_t scale = token * (n.heads + n.kv_heads);
      for (uint32_t h = 0; h < n.heads; ++h)
        Head(line[h * n.dim], queries[this->QueryPlace(token, h)], scale + h, false);
      for (uint32_t h = 0; h < n.kv_heads; ++h) {
        Head(line[(n.heads + h) * n.dim], keys[this->KeyPlace(token, h)], scale + n.heads + h, true);
        const LocalTensor<float> x = this->values.template Get<float>();
        this->LoadHead(line[(n.heads + n.kv_heads + h) * n.dim], x);
        this->StoreHead(all_values[this->KeyPlace(token, h)], x);
      }
    }
  }

 private:
  __aicore__ inline void Head(const GlobalTensor<T>& from, const GlobalTensor<T>& to, uint64_t scale_place, bool key) {
    LocalTensor<float> x = this->values.template Get<float>(), turned = this->turned.template Get<float>();
    this->LoadHead(from, x);
    if (this->HasNorm(key)) {
      const float scale = Scale(x, scale_place);
      const LocalTensor<float> norm = this->NormOf(key);
      LocalTensor<T> scratch = this->out.template AllocTensor<T>();
      this->EachPart([&](const typename HeadLines<T>::Part& part, int32_t n) {
        Muls(x[part.place], x[part.place], scale, n);
        RoundThrough(x[part.place], scratch[part.place], part.count);
        PipeBarrier<PIPE_V>();
        Mul(x[part.place], x[part.place], norm[part.place], n);
        RoundThrough(x[part.place], scratch[part.place], part.count);
      });
      this->out.FreeTensor(scratch);
    }
    this->Turn(x, turned, false);
    this->StoreHead(to, turned);
  }

  // 1 / root mean square, also saved for the gradient.
  __aicore__ inline float Scale(const LocalTensor<float>& x, uint64_t place) {
    LocalTensor<float> sums = this->total.template Get<float>();
    this->Dot(sums, x, x);
    PipeBarrier<PIPE_V>();
    Muls(sums, sums, 1.0f / static_cast<float>(this->n_.dim), 8);
    PipeBarrier<PIPE_V>();
    Adds(sums, sums, this->n_.eps, 8);
    PipeBarrier<PIPE_V>();
    Sqrt(sums, sums, 8);
    Duplicate(sums[8], 1.0f, 8);
    PipeBarrier<PIPE_V>();
    Div(sums, sums[8], sums, 8);
    LocalTensor<float> kept = this->statistics.template AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    Muls(kept, sums, 1.0f, 8);
    Store(this->statistics, kept, scales_[place], 1);
    return Read(sums, 0);
  }

  GlobalTensor<float> scales_;
};

template <typename T>
class SplitHeadsBackward : HeadLines<T> {
 public:
  __aicore__ inline void Run(GM_ADDR qkv, GM_ADDR query_norm, GM_ADDR key_norm, GM_ADDR cosine, GM_ADDR sine,
                             GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR scales, GM_ADDR qkv_gradient,
                             GM_ADDR norm_sums, HeadNumbers numbers) {
    this->InitHeads(numbers);
    const HeadNumbers& n = this->n_;
    this->pipe.InitBuffer(inputs_, this->span_ * sizeof(float));
    this->pipe.InitBuffer(sums_, 1, 2 * this->span_ * sizeof(float));
    const uint64_t tokens = n.tokens;
    const GlobalTensor<T> lines = GlobalOf<T>(qkv, tokens * this->width_),
                          results = GlobalOf<T>(qkv_gradient, tokens * this->width_);
    const GlobalTensor<T> queries = GlobalOf<T>(query, tokens * n.heads * n.dim);
    const GlobalTensor<T> keys = GlobalOf<T>(key, tokens * n.kv_heads * n.dim);
    const GlobalTensor<T> all_values = GlobalOf<T>(value, tokens * n.kv_heads * n.dim);
    const GlobalTensor<float> cosines = GlobalOf<float>(cosine, tokens * n.half),
                              sines = GlobalOf<float>(sine, tokens * n.half);
    scales_ = GlobalOf<float>(scales, tokens * (n.heads + n.kv_heads));
    norm_sum_ = sums_.template AllocTensor<float>();
    Duplicate(norm_sum_, 0.0f, static_cast<int32_t>(2 * this->span_));
    if (this->HasNorm(false)) this->LoadHead(GlobalOf<T>(query_norm, n.dim), this->NormOf(false));
    if (this->HasNorm(true)) this->LoadHead(GlobalOf<T>(key_norm, n.dim), this->NormOf(true));
    const Share share = MyShare(n.tokens);
    for (uint64_t token = share.begin; token < share.end; ++token) {
      this->LoadTable(cosines, sines, token);
      const uint64_t line = token * this->width_, scale = token * (n.heads + n.kv_heads);
      for (uint32_t h = 0; h < n.heads; ++h) {
        Head(lines[line + h * n.dim], queries[this->QueryPlace(token, h)], results[line + h * n.dim], scale + h, false);
      }
      for (uint32_t h = 0; h < n.kv_heads; ++h) {
        const uint64_t at = line + (n.heads + h) * n.dim;
        Head(lines[at], keys[this->KeyPlace(token, h)], results[at], scale + n.heads + h, true);
        const LocalTensor<float> x = this->values.template Get<float>();
        this->LoadHead(all_values[this->KeyPlace(token, h)], x);
        this->StoreHead(results[at + n.kv_heads * n.dim], x);
      }
    }
    StoreSums(GlobalOf<float>(norm_sums, static_cast<uint64_t>(AscendC::GetBlockNum()) * 2 * n.dim));
  }

 private:
  __aicore__ inline void Head(const GlobalTensor<T>& x_from, const GlobalTensor<T>& gradient_from,
                              const GlobalTensor<T>& to, uint64_t scale_place, bool key) {
    LocalTensor<float> gradient = this->values.template Get<float>(), turned = this->turned.template Get<float>();
    this->LoadHead(gradient_from, gradient);
    this->Turn(gradient, turned, true);
    if (this->HasNorm(key)) ThroughNorm(x_from, turned, scale_place, key);
    this->StoreHead(to, turned);
  }

  // gradient = (gradient · norm - normalised · mean(gradient · norm · normalised)) · scale.
  __aicore__ inline void ThroughNorm(const GlobalTensor<T>& x_from, const LocalTensor<float>& gradient,
                                     uint64_t scale_place, bool key) {
    LocalTensor<float> loaded = Load(this->in, scales_[scale_place], 1);
    const float scale = Read(loaded, 0);
    this->in.FreeTensor(loaded);
    LocalTensor<float> x = inputs_.template Get<float>(), product = this->products.template Get<float>();
    this->LoadHead(x_from, x);
    const LocalTensor<float> norm = this->NormOf(key), sum = norm_sum_[key ? this->span_ : 0];
    this->EachPart([&](const typename HeadLines<T>::Part& part, int32_t n) {
      PipeBarrier<PIPE_V>();
      Muls(x[part.place], x[part.place], scale, n);
      PipeBarrier<PIPE_V>();
      Mul(product[part.place], gradient[part.place], x[part.place], n);
      PipeBarrier<PIPE_V>();
      Add(sum[part.place], sum[part.place], product[part.place], n);
      Mul(gradient[part.place], gradient[part.place], norm[part.place], n);
    });
    LocalTensor<float> sums = this->total.template Get<float>();
    this->Dot(sums, gradient, x);
    const float shared = Read(sums, 0) / static_cast<float>(this->n_.dim);
    this->EachPart([&](const typename HeadLines<T>::Part& part, int32_t n) {
      Axpy(gradient[part.place], x[part.place], -shared, n);
      PipeBarrier<PIPE_V>();
      Muls(gradient[part.place], gradient[part.place], scale, n);
    });
  }

  // [block, query | key, dim]
  __aicore__ inline void StoreSums(const GlobalTensor<float>& to) {
    sums_.EnQue(norm_sum_);
    norm_sum_ = sums_.template DeQue<float>();
    for (uint32_t key = 0; key < 2; ++key) {
      const uint64_t place = (static_cast<uint64_t>(AscendC::GetBlockIdx()) * 2 + key) * this->n_.dim;
      this->EachPart([&](const typename HeadLines<T>::Part& part, int32_t) {
        CopyOut(to[place + part.at], norm_sum_[key * this->span_ + part.place], part.count);
      });
    }
    sums_.FreeTensor(norm_sum_);
  }

  TBuf<> inputs_;
  OutQueue sums_;
  LocalTensor<float> norm_sum_;
  GlobalTensor<float> scales_;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void split_heads(GM_ADDR qkv, GM_ADDR query_norm, GM_ADDR key_norm, GM_ADDR cosine,
                                                  GM_ADDR sine, GM_ADDR query, GM_ADDR key, GM_ADDR value,
                                                  GM_ADDR scales, uint32_t type, uint32_t tokens, uint32_t length,
                                                  uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t half_dim,
                                                  uint32_t norms, float eps) {
  trireme_kernels::ByType<trireme_kernels::SplitHeads>(
      type, qkv, query_norm, key_norm, cosine, sine, query, key, value, scales,
      trireme_kernels::HeadNumbers{tokens, length, heads, kv_heads, dim, half_dim, norms, eps});
}

extern "C" __global__ __aicore__ void split_heads_backward(GM_ADDR qkv, GM_ADDR query_norm, GM_ADDR key_norm,
                                                           GM_ADDR cosine, GM_ADDR sine, GM_ADDR query, GM_ADDR key,
                                                           GM_ADDR value, GM_ADDR scales, GM_ADDR qkv_gradient,
                                                           GM_ADDR norm_sums, uint32_t type, uint32_t tokens,
                                                           uint32_t length, uint32_t heads, uint32_t kv_heads,
                                                           uint32_t dim, uint32_t half_dim, uint32_t norms, float eps) {
  trireme_kernels::ByType<trireme_kernels::SplitHeadsBackward>(
      type, qkv, query_norm, key_norm, cosine, sine, query, key, value, scales, qkv_gradient, norm_sums,
      trireme_kernels::HeadNumbers{tokens, length, heads, kv_heads, dim, half_dim, norms, eps});
}
