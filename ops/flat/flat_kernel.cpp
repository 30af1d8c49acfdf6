// Passes over flat memory in tiles: AdamW's update, sums of squares, scaling, adding into an fp32 sum.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

// Calls work(offset, count) for this block's tiles of [0, size).
template <typename Work>
__aicore__ inline void EachTile(uint64_t size, uint32_t tile, const Work& work) {
  const Share share = MyShare(static_cast<uint32_t>((size + tile - 1) / tile));
  for (uint32_t i = share.begin; i < share.end; ++i) {
    const uint64_t place = static_cast<uint64_t>(i) * tile;
    work(place, size - place < tile ? static_cast<uint32_t>(size - place) : tile);
  }
}

__aicore__ inline uint64_t Size64(uint32_t high, uint32_t low) { return (static_cast<uint64_t>(high) << 32) + low; }

struct AdamWNumbers {
  float decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_correction, eps, gradient_scale;
};

// `T` is the parameter's type; the state is fp32.
template <typename T>
class AdamW {
 public:
  __aicore__ inline void Run(GM_ADDR master, GM_ADDR exp_avg, GM_ADDR exp_avg_sq, GM_ADDR gradient, GM_ADDR parameter,
                             uint64_t size, uint32_t tile, uint32_t writes_parameter, AdamWNumbers numbers) {
    master_ = GlobalOf<float>(master, size), exp_avg_ = GlobalOf<float>(exp_avg, size);
    exp_avg_sq_ = GlobalOf<float>(exp_avg_sq, size), gradient_ = GlobalOf<float>(gradient, size);
    parameter_ = GlobalOf<T>(parameter, size);
    pipe.InitBuffer(in, 2, tile * sizeof(float));
    pipe.InitBuffer(out, 3, tile * sizeof(float));
    pipe.InitBuffer(gradients_, tile * sizeof(float));
    pipe.InitBuffer(scratch_, tile * sizeof(float));
    EachTile(size, tile, [&](uint64_t place, uint32_t count) { Tile(place, count, writes_parameter != 0, numbers); });
  }

 private:
  __aicore__ inline void Tile(uint64_t place, uint32_t count, bool writes_parameter, const AdamWNumbers& f) {
    const int32_t n = static_cast<int32_t>(count);
    LocalTensor<float> gradient = gradients_.Get<float>(), scratch = scratch_.Get<float>();
    LocalTensor<float> loaded = Load(in, gradient_[place], count);
    Muls(gradient, loaded, f.gradient_scale, n);
    in.FreeTensor(loaded);

    LocalTensor<float> second = out.AllocTensor<float>();
    loaded = Load(in, exp_avg_sq_[place], count);
    Muls(second, loaded, f.beta2, n);
    in.FreeTensor(loaded);
    PipeBarrier<PIPE_V>();
    Mul(scratch, gradient, gradient, n);
    PipeBarrier<PIPE_V>();
    Axpy(second, scratch, f.one_minus_beta2, n);

    LocalTensor<float> first = out.AllocTensor<float>();
    loaded = Load(in, exp_avg_[place], count);
    Muls(first, loaded, f.beta1, n);
    in.FreeTensor(loaded);
    PipeBarrier<PIPE_V>();
    Axpy(first, gradient, f.one_minus_beta1, n);

    Sqrt(scratch, second, n);
    PipeBarrier<PIPE_V>();
    Muls(scratch, scratch, f.inverse_correction, n);
    PipeBarrier<PIPE_V>();
    Adds(scratch, scratch, f.eps, n);
    PipeBarrier<PIPE_V>();
    Div(scratch, first, scratch, n);
    Store(out, second, exp_avg_sq_[place], count);
    Store(out, first, exp_avg_[place], count);

    LocalTensor<float> master = out.AllocTensor<float>();
    loaded = Load(in, master_[place], count);
    Muls(master, loaded, f.decay, n);
    in.FreeTensor(loaded);
    PipeBarrier<PIPE_V>();
    Axpy(master, scratch, -f.step_size, n);
    if (writes_parameter) {
      LocalTensor<T> parameter = out.AllocTensor<T>();
      if constexpr (IsFloat<T>::value) {
        PipeBarrier<PIPE_V>();
        Muls(parameter, master, 1.0f, n);
      } else {
        PipeBarrier<PIPE_V>();
        Cast(parameter, master, RoundMode::CAST_RINT, count);
      }
      Store(out, parameter, parameter_[place], count);
    }
    Store(out, master, master_[place], count);
  }

  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> gradients_, scratch_;
  GlobalTensor<float> master_, exp_avg_, exp_avg_sq_, gradient_;
  GlobalTensor<T> parameter_;
};

// sums[block] = Σ values² of the block's tiles.
template <typename T>
class SumOfSquares {
 public:
  __aicore__ inline void Run(GM_ADDR values, GM_ADDR sums, uint64_t size, uint32_t tile) {
    const GlobalTensor<T> from = GlobalOf<T>(values, size);
    const GlobalTensor<float> to = GlobalOf<float>(sums, static_cast<uint64_t>(AscendC::GetBlockNum()));
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 1, 32);
    pipe.InitBuffer(wide, tile * sizeof(float));
    LocalTensor<float> total = out.AllocTensor<float>();
    Duplicate(total, 0.0f, 8);
    EachTile(size, tile, [&](uint64_t place, uint32_t count) {
      LocalTensor<float> x = wide.Get<float>();
      LoadWide(in, from[place], x, count);
      PipeBarrier<PIPE_V>();
      Mul(x, x, x, static_cast<int32_t>(count));
      PipeBarrier<PIPE_V>();
      ReduceSum(x, x, x, static_cast<int32_t>(count));
      PipeBarrier<PIPE_V>();
      Add(total, total, x, 1);
    });
    Store(out, total, to[static_cast<uint64_t>(AscendC::GetBlockIdx())], 1);
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> wide;
};

template <typename T>
class Scale {
 public:
  __aicore__ inline void Run(GM_ADDR values, uint64_t size, uint32_t tile, float factor) {
    const GlobalTensor<T> memory = GlobalOf<T>(values, size);
    pipe.InitBuffer(in, 2, tile * sizeof(T));
    pipe.InitBuffer(out, 2, tile * sizeof(T));
    pipe.InitBuffer(wide, tile * sizeof(float));
    EachTile(size, tile, [&](uint64_t place, uint32_t count) {
      LocalTensor<T> loaded = Load(in, memory[place], count), scaled = out.AllocTensor<T>();
      const LocalTensor<float> x = Widen(loaded, wide.Get<float>(), count),
                               result = ResultOf(scaled, wide.Get<float>());
      PipeBarrier<PIPE_V>();
      Muls(result, x, factor, static_cast<int32_t>(count));
      Narrow(scaled, result, count);
      in.FreeTensor(loaded);
      Store(out, scaled, memory[place], count);
    });
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> wide;
};

// sum (fp32) += addend.
template <typename T>
class AddInto {
 public:
  __aicore__ inline void Run(GM_ADDR sum, GM_ADDR addend, uint64_t size, uint32_t tile) {
    const GlobalTensor<float> to = GlobalOf<float>(sum, size);
    const GlobalTensor<T> from = GlobalOf<T>(addend, size);
    pipe.InitBuffer(in, 2, tile * sizeof(float));
    pipe.InitBuffer(out, 2, tile * sizeof(float));
    pipe.InitBuffer(wide, tile * sizeof(float));
    EachTile(size, tile, [&](uint64_t place, uint32_t count) {
      LocalTensor<T> loaded = Load(in, from[place], count);
      LocalTensor<float> before = Load(in, to[place], count), after = out.AllocTensor<float>();
      const LocalTensor<float> x = Widen(loaded, wide.Get<float>(), count);
      PipeBarrier<PIPE_V>();
      Add(after, before, x, static_cast<int32_t>(count));
      in.FreeTensor(loaded);
      in.FreeTensor(before);
      Store(out, after, to[place], count);
    });
  }

 private:
  TPipe pipe;
  InQueue in;
  OutQueue out;
  TBuf<> wide;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void adamw(GM_ADDR master, GM_ADDR exp_avg, GM_ADDR exp_avg_sq, GM_ADDR gradient,
                                            GM_ADDR parameter, uint32_t type, uint32_t size_high, uint32_t size_low,
                                            uint32_t tile, uint32_t writes_parameter, float decay, float beta1,
                                            float one_minus_beta1, float beta2, float one_minus_beta2, float step_size,
                                            float inverse_correction, float eps, float gradient_scale) {
  trireme_kernels::ByType<trireme_kernels::AdamW>(
      type, master, exp_avg, exp_avg_sq, gradient, parameter, trireme_kernels::Size64(size_high, size_low), tile,
      writes_parameter,
      trireme_kernels::AdamWNumbers{decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size,
                                    inverse_correction, eps, gradient_scale});
}

extern "C" __global__ __aicore__ void sum_of_squares(GM_ADDR values, GM_ADDR sums, uint32_t type, uint32_t size_high,
                                                     uint32_t size_low, uint32_t tile) {
  trireme_kernels::ByType<trireme_kernels::SumOfSquares>(type, values, sums,
                                                         trireme_kernels::Size64(size_high, size_low), tile);
}

extern "C" __global__ __aicore__ void scale_values(GM_ADDR values, uint32_t type, uint32_t size_high, uint32_t size_low,
                                                   uint32_t tile, float factor) {
  trireme_kernels::ByType<trireme_kernels::Scale>(type, values, trireme_kernels::Size64(size_high, size_low), tile,
                                                  factor);
}

extern "C" __global__ __aicore__ void add_into(GM_ADDR sum, GM_ADDR addend, uint32_t type, uint32_t size_high,
                                               uint32_t size_low, uint32_t tile) {
  trireme_kernels::ByType<trireme_kernels::AddInto>(type, sum, addend, trireme_kernels::Size64(size_high, size_low),
                                                    tile);
}
