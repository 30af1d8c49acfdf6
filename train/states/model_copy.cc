#include "train/states/model_copy.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/elements.h"
#include "core/base/rounding.h"
#include "core/plan/file_pieces.h"
#include "core/tensor/dtype.h"

namespace trireme {
namespace {

constexpr char kWeights[] = "weights";  // the other states have no file copies

// Large copies bypass the caches, which is faster than copy_ at this size.
void CopyOnAllCores(void* target, const void* source, size_t bytes) {
  constexpr int64_t kPiece = 8 << 20;
  const auto size = static_cast<int64_t>(bytes), pieces = DivideUp(size, kPiece);
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kPiece, end = std::min(last * kPiece, size);
    std::memcpy(static_cast<char*>(target) + begin, static_cast<const char*>(source) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

// The optimizer's answer, where there is one: of a tied embedding the first stage's copy is the one that counts.
bool ModelCopy::IsTiedCopy(const Bucket& bucket) const {
  if (optimizer_ != nullptr) return optimizer_->IsTiedCopy(bucket);
  const Communicator* embedding = model_.tied_embedding();
  return embedding != nullptr && bucket.layer() == "embedding" && embedding->rank() > 0;
}

// The weights and all states, except the master weights if those are the weights.
void ModelCopy::Take() {
  size_t index = 0;
  for (Bucket* bucket : model_.buckets()) {
    if (trained_only_ && !bucket->trained()) continue;
    if (!IsTiedCopy(*bucket)) TakeShard(index++, *bucket, kWeights, bucket->shard_values());
  }
  if (optimizer_ == nullptr) return;
  optimizer_->ForEachShard([&](const ShardState& state) {
    const bool is_value =
        state.state == "master" && state.bucket->shard_values().scalar_type() == state.shard.scalar_type();
    if (!state.is_copy && !is_value) TakeShard(index++, *state.bucket, state.state, state.shard);
  });
  optimizer_->ForEachTensorState([&](const TensorState& state) {
    if (state.saved) TakeTensorState(index++, state);
  });
}

void ModelCopy::TakeTensorState(size_t index, const TensorState& state) {
  if (index == host_.size()) {
    const at::Tensor host =
        host_.emplace_back(at::empty(state.values.sizes(), state.values.options().device(at::kCPU)));
    const Shape shape(host.sizes().begin(), host.sizes().end());
    pieces_.push_back({.key = state.key,
                       .dtype = DType::kFp32,
                       .shape = shape,
                       .box = {Shape(shape.size(), 0), shape},
                       .data = host.data_ptr(),
                       .strides = RowMajorStrides(shape)});
  }
  host_[index].copy_(state.values);
}

void ModelCopy::TakeShard(size_t index, Bucket& bucket, const std::string& state, const at::Tensor& shard) {
  if (index == host_.size()) {
    host_.push_back(at::empty(shard.sizes(), shard.options().device(at::kCPU)));
    Describe(bucket, state, host_.back());
  }
  if (shard.is_cpu() && shard.is_contiguous()) {
    CopyOnAllCores(host_[index].data_ptr(), shard.data_ptr(), shard.nbytes());
  } else {
    host_[index].copy_(shard);
  }
}

void ModelCopy::Describe(Bucket& bucket, const std::string& state, const at::Tensor& host) {
  const DType dtype = FromTorch(host.scalar_type());
  for (const FlatPart& part : bucket.parts()) {
    const Shard shard = bucket.ShardOf(part, state, dtype, host.data_ptr());
    for (const FilePiece& piece : FilePieces(bucket.entries()[part.parameter]->parameter, shard)) {
      if (piece.replica != 0) continue;
      std::vector<std::string> names = {piece.tensor->name};
      if (state == kWeights) names.insert(names.end(), piece.tensor->repeated.begin(), piece.tensor->repeated.end());
      for (const std::string& name : names) {
        pieces_.push_back({.key = state + "/" + name,
                           .dtype = dtype,
                           .shape = piece.tensor->shape,
                           .box = piece.box,
                           .data = Advance(shard.data, dtype, piece.offset),
                           .strides = piece.strides});
      }
    }
  }
}

}  // namespace trireme
