// The gated delta rule: pairs of a chunk's tokens (chunk_scan.h has the formulas). Of each value head and chunk: decays
// between tokens, what queries read of them, the inverse of the triangular system, and the gradients of these. The
// matmuls before and after run on the cube unit; here nothing but the vector unit's part of it, a chunk of at most 64
// tokens at once: a row is one repeat, so that a step of the elimination is one instruction over all rows below it.
// Value heads that share a key head share the products of keys and queries. All fp32.
#include "ops/ascendc/tile.h"

namespace trireme_kernels {
namespace {

using AscendC::BinaryRepeatParams;
using AscendC::Brcb;
using AscendC::BrcbRepeatParams;
using AscendC::UnaryRepeatParams;

constexpr uint32_t kPitch = 64;  // of rows: a repeat of fp32
constexpr uint32_t kMatrixBytes = kPitch * kPitch * sizeof(float);
constexpr uint32_t kColumnBytes = kPitch * 32;  // each value fills a block
constexpr float kNever = -1.0e30f;              // its exponential is 0

// Columns are made of whole blocks of a row: lanes after its end have to hold something.
__aicore__ inline void Clear(TBuf<>& buffer, uint32_t count) {
  PipeBarrier<PIPE_V>();
  Duplicate(buffer.Get<float>(), 0.0f, static_cast<int32_t>(count));
}

struct PairShape {
  uint32_t matrices, size, group;  // value heads of all chunks; tokens of a chunk; value heads per key head
};

// Whole matrices of size x size, with rows kPitch apart.
class Matrices {
 public:
  __aicore__ inline void Init(uint32_t size) {
    size_ = size, rows_ = static_cast<uint8_t>(size), blocks_ = static_cast<uint8_t>((size + 7) / 8);
    elements_ = size * size;
  }
  __aicore__ inline void Read(const LocalTensor<float>& to, const GlobalTensor<float>& from, uint64_t matrix) const {
    DataCopyPad(to, from[matrix * elements_], DataCopyExtParams{rows_, RowBytes(), 0, Gap(), 0},
                DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
  }
  __aicore__ inline void Write(const GlobalTensor<float>& to, const LocalTensor<float>& from, uint64_t matrix) const {
    DataCopyPad(to[matrix * elements_], from, DataCopyExtParams{rows_, RowBytes(), Gap(), 0, 0});
  }
  __aicore__ inline void Product(const LocalTensor<float>& to, const LocalTensor<float>& a,
                                 const LocalTensor<float>& b) const {
    PipeBarrier<PIPE_V>();
    Mul(to, a, b, size_, rows_, BinaryRepeatParams{1, 1, 1, 8, 8, 8});
  }
  __aicore__ inline void Sum(const LocalTensor<float>& to, const LocalTensor<float>& a,
                             const LocalTensor<float>& b) const {
    PipeBarrier<PIPE_V>();
    Add(to, a, b, size_, rows_, BinaryRepeatParams{1, 1, 1, 8, 8, 8});
  }
  // Row i by value i of a column.
  __aicore__ inline void ByRow(const LocalTensor<float>& to, const LocalTensor<float>& a,
                               const LocalTensor<float>& column) const {
    PipeBarrier<PIPE_V>();
    Mul(to, a, column, size_, rows_, BinaryRepeatParams{1, 1, 0, 8, 8, 1});
  }
  // Each row by another one, lane by lane.
  __aicore__ inline void ByLane(const LocalTensor<float>& to, const LocalTensor<float>& a,
                                const LocalTensor<float>& row) const {
    PipeBarrier<PIPE_V>();
    Mul(to, a, row, size_, rows_, BinaryRepeatParams{1, 1, 1, 8, 8, 0});
  }
  // column_i - row_j, or the negative.
  __aicore__ inline void Differences(const LocalTensor<float>& to, const LocalTensor<float>& column,
                                     const LocalTensor<float>& row) const {
    PipeBarrier<PIPE_V>();
    Sub(to, column, row, size_, rows_, BinaryRepeatParams{1, 0, 1, 8, 1, 0});
  }
  __aicore__ inline void NegativeDifferences(const LocalTensor<float>& to, const LocalTensor<float>& column,
                                             const LocalTensor<float>& row) const {
    PipeBarrier<PIPE_V>();
    Sub(to, row, column, size_, rows_, BinaryRepeatParams{1, 1, 0, 8, 0, 1});
  }
  __aicore__ inline void Exponential(const LocalTensor<float>& x) const {
    PipeBarrier<PIPE_V>();
    Exp(x, x, size_, rows_, UnaryRepeatParams{1, 1, 8, 8});
  }
  // A row as a column: each value fills a block.
  __aicore__ inline void Column(const LocalTensor<float>& to, const LocalTensor<float>& row) const {
    PipeBarrier<PIPE_V>();
    Brcb(to, row, blocks_, BrcbRepeatParams{1, 8});
  }
  // Rows after j += column · row j.
  __aicore__ inline void Eliminate(const LocalTensor<float>& x, const LocalTensor<float>& column, uint32_t j) const {
    PipeBarrier<PIPE_V>();
    MulAddDst(x[(j + 1) * kPitch], column[(j + 1) * 8], x[j * kPitch], size_, static_cast<uint8_t>(size_ - 1 - j),
              BinaryRepeatParams{1, 0, 1, 8, 1, 0});
  }
  __aicore__ inline void RowSums(const LocalTensor<float>& to, const LocalTensor<float>& x) const {
    PipeBarrier<PIPE_V>();
    WholeReduceSum(to, x, size_, rows_, 1, 1, 8);
  }
  // The sum of all rows is then the first one.
  __aicore__ inline void AddRows(const LocalTensor<float>& x) const {
    for (uint32_t rows = size_; rows > 1;) {
      const uint32_t half = (rows + 1) / 2;
      PipeBarrier<PIPE_V>();
      Add(x, x, x[half * kPitch], size_, static_cast<uint8_t>(rows - half), BinaryRepeatParams{1, 1, 1, 8, 8, 8});
      rows = half;
    }
  }
  // Row i: `upto` in the lanes before i and at i, or before i only; `after` in the others.
  __aicore__ inline void Triangle(const LocalTensor<float>& to, float upto, float after, bool diagonal) const {
    for (uint32_t i = 0; i < size_; ++i) {
      PipeBarrier<PIPE_V>();
      Duplicate(to[i * kPitch], after, static_cast<int32_t>(size_));
      const uint32_t count = diagonal ? i + 1 : i;
      PipeBarrier<PIPE_V>();
      if (count > 0) Duplicate(to[i * kPitch], upto, static_cast<int32_t>(count));
    }
  }

 private:
  __aicore__ inline uint32_t RowBytes() const { return static_cast<uint32_t>(size_ * sizeof(float)); }
  __aicore__ inline uint32_t Gap() const { return kPitch / 8 - blocks_; }  // in blocks

  uint64_t size_ = 0, elements_ = 0;
  uint8_t rows_ = 0, blocks_ = 0;
};

// The products of keys and of queries with keys, loaded once for the value heads that share them.
class SharedProducts {
 public:
  __aicore__ inline void Init(TPipe& pipe, GM_ADDR keys, GM_ADDR queries, const PairShape& shape) {
    const uint64_t size = static_cast<uint64_t>(shape.matrices / shape.group) * shape.size * shape.size;
    from_keys_ = GlobalOf<float>(keys, size), from_queries_ = GlobalOf<float>(queries, size);
    pipe.InitBuffer(key_queue_, 1, kMatrixBytes);
    pipe.InitBuffer(query_queue_, 1, kMatrixBytes);
  }
  __aicore__ inline void Take(const Matrices& m, uint32_t matrix) {
    if (held_ && matrix == matrix_) return;
    Free();
    keys = Load(m, key_queue_, from_keys_, matrix);
    queries = Load(m, query_queue_, from_queries_, matrix);
    matrix_ = matrix, held_ = true;
  }
  __aicore__ inline void Free() {
    if (!held_) return;
    key_queue_.FreeTensor(keys);
    query_queue_.FreeTensor(queries);
    held_ = false;
  }

  LocalTensor<float> keys, queries;

 private:
  __aicore__ inline LocalTensor<float> Load(const Matrices& m, InQueue& queue, const GlobalTensor<float>& from,
                                            uint32_t matrix) {
    LocalTensor<float> tensor = queue.AllocTensor<float>();
    m.Read(tensor, from, matrix);
    queue.EnQue(tensor);
    return queue.DeQue<float>();
  }

  InQueue key_queue_, query_queue_;
  GlobalTensor<float> from_keys_, from_queries_;
  uint32_t matrix_ = 0;
  bool held_ = false;
};

class DeltaPairsForward {
 public:
  __aicore__ inline void Run(GM_ADDR keys, GM_ADDR queries, GM_ADDR decay, GM_ADDR beta, GM_ADDR attention,
                             GM_ADDR inverse, PairShape shape) {
    const Share share = MyShare(shape.matrices);
    if (share.begin == share.end) return;
    const uint64_t lines = static_cast<uint64_t>(shape.matrices) * shape.size;
    decay_ = GlobalOf<float>(decay, lines), beta_ = GlobalOf<float>(beta, lines);
    attention_ = GlobalOf<float>(attention, lines * shape.size),
    inverse_ = GlobalOf<float>(inverse, lines * shape.size);
    m_.Init(shape.size), size_ = shape.size;
    products_.Init(pipe, keys, queries, shape);
    pipe.InitBuffer(in_, 2, kPitch * sizeof(float));
    pipe.InitBuffer(out_, 2, kMatrixBytes);
    for (TBuf<>* buffer : {&work_, &upto_, &later_, &one_}) pipe.InitBuffer(*buffer, kMatrixBytes);
    pipe.InitBuffer(column_, kColumnBytes);
    for (TBuf<>* buffer : {&decays_, &betas_}) pipe.InitBuffer(*buffer, kPitch * sizeof(float));
    m_.Triangle(upto_.Get<float>(), 0.0f, kNever, true);
    m_.Triangle(later_.Get<float>(), kNever, 0.0f, true);
    Identity();
    Clear(work_, kPitch * kPitch);
    Clear(decays_, kPitch);
    for (uint32_t i = share.begin; i < share.end; ++i) Matrix(i, i / shape.group);
    products_.Free();
  }

 private:
  __aicore__ inline void Identity() {
    const LocalTensor<float> one = one_.Get<float>();
    m_.Triangle(one, 1.0f, 0.0f, true);
    const LocalTensor<float> before = work_.Get<float>();
    m_.Triangle(before, -1.0f, 0.0f, false);
    m_.Sum(one, one, before);
  }
  __aicore__ inline void Matrix(uint32_t i, uint32_t product) {
    const LocalTensor<float> decays = decays_.Get<float>(), betas = betas_.Get<float>(), column = column_.Get<float>();
    LoadWide(in_, decay_[static_cast<uint64_t>(i) * size_], decays, size_);
    LoadWide(in_, beta_[static_cast<uint64_t>(i) * size_], betas, size_);
    products_.Take(m_, product);
    m_.Column(column, decays);
    LocalTensor<float> attention = out_.AllocTensor<float>();
    m_.Differences(attention, column, decays);
    m_.Sum(attention, attention, upto_.Get<float>());
    m_.Exponential(attention);
    m_.Product(attention, attention, products_.queries);
    Put(attention, attention_, i);
    Solve(i);
  }
  // The system transposed: row j has what the tokens after j take from it, negative. Products of keys are symmetric.
  __aicore__ inline void Solve(uint32_t i) {
    const LocalTensor<float> system = work_.Get<float>(), column = column_.Get<float>();
    m_.NegativeDifferences(system, column, decays_.Get<float>());
    m_.Sum(system, system, later_.Get<float>());
    m_.Exponential(system);
    m_.Product(system, system, products_.keys);
    m_.ByLane(system, system, betas_.Get<float>());
    LocalTensor<float> inverse = out_.AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    Muls(system, system, -1.0f, size_, static_cast<uint8_t>(size_), UnaryRepeatParams{1, 1, 8, 8});
    Muls(inverse, one_.Get<float>(), 1.0f, size_, static_cast<uint8_t>(size_), UnaryRepeatParams{1, 1, 8, 8});
    for (uint32_t j = 0; j + 1 < size_; ++j) {
      m_.Column(column, system[j * kPitch]);
      m_.Eliminate(inverse, column, j);
    }
    Put(inverse, inverse_, i);
  }
  __aicore__ inline void Put(LocalTensor<float>& made, const GlobalTensor<float>& to, uint32_t i) {
    out_.EnQue(made);
    LocalTensor<float> ready = out_.DeQue<float>();
    m_.Write(to, ready, i);
    out_.FreeTensor(ready);
  }

  TPipe pipe;
  Matrices m_;
  SharedProducts products_;
  InQueue in_;
  OutQueue out_;
  TBuf<> work_, upto_, later_, one_, column_, decays_, betas_;
  GlobalTensor<float> decay_, beta_, attention_, inverse_;
  uint32_t size_ = 0;
};

class DeltaPairsBackward {
 public:
  __aicore__ inline void Run(GM_ADDR keys, GM_ADDR queries, GM_ADDR decay, GM_ADDR beta, GM_ADDR attention,
                             GM_ADDR system, GM_ADDR decay_gradient, GM_ADDR beta_gradient, PairShape shape) {
    const Share share = MyShare(shape.matrices);
    if (share.begin == share.end) return;
    const uint64_t lines = static_cast<uint64_t>(shape.matrices) * shape.size;
    decay_ = GlobalOf<float>(decay, lines), beta_ = GlobalOf<float>(beta, lines);
    attention_ = GlobalOf<float>(attention, lines * shape.size), system_ = GlobalOf<float>(system, lines * shape.size);
    decay_gradient_ = GlobalOf<float>(decay_gradient, lines), beta_gradient_ = GlobalOf<float>(beta_gradient, lines);
    m_.Init(shape.size), size_ = shape.size;
    products_.Init(pipe, keys, queries, shape);
    pipe.InitBuffer(in_, 1, kPitch * sizeof(float));
    pipe.InitBuffer(matrix_, 1, kMatrixBytes);
    pipe.InitBuffer(out_, 2, kMatrixBytes);
    pipe.InitBuffer(line_, 2, kPitch * sizeof(float));
    for (TBuf<>* buffer : {&pairs_, &mixed_, &upto_, &before_}) pipe.InitBuffer(*buffer, kMatrixBytes);
    pipe.InitBuffer(column_, kColumnBytes);
    for (TBuf<>* buffer : {&decays_, &betas_}) pipe.InitBuffer(*buffer, kPitch * sizeof(float));
    m_.Triangle(upto_.Get<float>(), 0.0f, kNever, true);
    m_.Triangle(before_.Get<float>(), -1.0f, 0.0f, false);
    Clear(decays_, kPitch);
    Clear(betas_, kPitch);
    for (uint32_t i = share.begin; i < share.end; ++i) Matrix(i, i / shape.group);
    products_.Free();
  }

 private:
  __aicore__ inline void Matrix(uint32_t i, uint32_t product) {
    const LocalTensor<float> pairs = pairs_.Get<float>(), mixed = mixed_.Get<float>(), column = column_.Get<float>();
    const LocalTensor<float> decays = decays_.Get<float>(), betas = betas_.Get<float>();
    LoadWide(in_, decay_[static_cast<uint64_t>(i) * size_], decays, size_);
    LoadWide(in_, beta_[static_cast<uint64_t>(i) * size_], betas, size_);
    products_.Take(m_, product);
    m_.Column(column, decays);
    m_.Differences(pairs, column, decays);
    m_.Sum(pairs, pairs, upto_.Get<float>());
    m_.Exponential(pairs);
    LocalTensor<float> attention = Multiplied(attention_, i, pairs);
    m_.Product(mixed, attention, products_.queries);
    Put(attention, attention_, i);
    m_.Product(pairs, pairs, before_.Get<float>());
    LocalTensor<float> system = Multiplied(system_, i, pairs);
    m_.Product(pairs, system, products_.keys);
    LocalTensor<float> to_beta = line_.AllocTensor<float>();
    m_.RowSums(to_beta, pairs);
    Store(line_, to_beta, beta_gradient_[static_cast<uint64_t>(i) * size_], size_);
    m_.Column(column, betas);
    m_.ByRow(system, system, column);
    Put(system, system_, i);
    m_.ByRow(pairs, pairs, column);
    m_.Sum(mixed, mixed, pairs);
    LocalTensor<float> to_decay = line_.AllocTensor<float>();
    m_.RowSums(to_decay, mixed);
    m_.AddRows(mixed);
    PipeBarrier<PIPE_V>();
    Sub(to_decay, to_decay, mixed, static_cast<int32_t>(size_));
    Store(line_, to_decay, decay_gradient_[static_cast<uint64_t>(i) * size_], size_);
  }
  __aicore__ inline LocalTensor<float> Multiplied(const GlobalTensor<float>& from, uint32_t i,
                                                  const LocalTensor<float>& by) {
    LocalTensor<float> tensor = matrix_.AllocTensor<float>();
    m_.Read(tensor, from, i);
    matrix_.EnQue(tensor);
    LocalTensor<float> loaded = matrix_.DeQue<float>(), made = out_.AllocTensor<float>();
    m_.Product(made, loaded, by);
    matrix_.FreeTensor(loaded);
    return made;
  }
  __aicore__ inline void Put(LocalTensor<float>& made, const GlobalTensor<float>& to, uint32_t i) {
    out_.EnQue(made);
    LocalTensor<float> ready = out_.DeQue<float>();
    m_.Write(to, ready, i);
    out_.FreeTensor(ready);
  }

  TPipe pipe;
  Matrices m_;
  SharedProducts products_;
  InQueue in_, matrix_;
  OutQueue out_, line_;
  TBuf<> pairs_, mixed_, upto_, before_, column_, decays_, betas_;
  GlobalTensor<float> decay_, beta_, attention_, system_, decay_gradient_, beta_gradient_;
  uint32_t size_ = 0;
};

}  // namespace
}  // namespace trireme_kernels

extern "C" __global__ __aicore__ void delta_pairs_forward(GM_ADDR keys, GM_ADDR queries, GM_ADDR decay, GM_ADDR beta,
                                                          GM_ADDR attention, GM_ADDR inverse, uint32_t matrices,
                                                          uint32_t size, uint32_t group) {
  trireme_kernels::DeltaPairsForward().Run(keys, queries, decay, beta, attention, inverse, {matrices, size, group});
}

extern "C" __global__ __aicore__ void delta_pairs_backward(GM_ADDR keys, GM_ADDR queries, GM_ADDR decay, GM_ADDR beta,
                                                           GM_ADDR attention, GM_ADDR system, GM_ADDR decay_gradient,
                                                           GM_ADDR beta_gradient, uint32_t matrices, uint32_t size,
                                                           uint32_t group) {
  trireme_kernels::DeltaPairsBackward().Run(keys, queries, decay, beta, attention, system, decay_gradient,
                                            beta_gradient, {matrices, size, group});
}
