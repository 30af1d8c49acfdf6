#include "parallel/sharding/tensor_sums.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

bool IsPartial(const Placement& placement, const std::string& wanted) {
  const AxisNames& partial = placement.declaration().partial_gradient;
  for (const std::string& axis : partial) {
    TRIREME_CHECK(axis == wanted || placement.mesh().Size(axis) == 1)
        << placement.name() << " is partial over " << axis << ", which has no process group here";
  }
  return std::find(partial.begin(), partial.end(), wanted) != partial.end();
}

Box WholeBox(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

}  // namespace

TensorSums::TensorSums(const std::vector<Bucket*>& buckets, const SumAxis& axis)
    : axis_(axis.name), axis_size_(axis.size), group_(axis.group) {
  if (axis.size == 1) return;
  for (Bucket* bucket : buckets) {
    if (bucket->entries().front()->placement.declaration().grid != axis.grid) continue;
    for (const FlatPart& part : bucket->parts()) AddPart(*bucket, part);
  }
}

void TensorSums::AddPart(Bucket& bucket, const FlatPart& part) {
  const Placement& placement = bucket.entries()[part.parameter]->placement;
  const Shape shape = placement.LocalShape();
  if (IsPartial(placement, axis_)) Add(bucket, PiecesInBox(shape, part, WholeBox(shape)), axis_size_);
  for (const SharedBlock& block : placement.SharedBlocks()) {
    TRIREME_CHECK(block.axis == axis_) << placement.name() << " is shared over " << block.axis
                                       << ", which has no process group here";
    Box box = WholeBox(shape);
    box.offset[block.dim] = block.local_offset;
    box.extent[block.dim] = block.local_size;
    Add(bucket, PiecesInBox(shape, part, box), block.ranks);
  }
}

// `neighbours` consecutive ranks hold parts of the same sum. Each adds to its neighbourhood's section of a
// message that the full group sums: no communicator of the neighbours is needed.
void TensorSums::Add(Bucket& bucket, const std::vector<Piece>& pieces, int neighbours) {
  const int positions = group_.size() / neighbours, place = group_.rank() / neighbours;
  for (const Piece& piece : MergeRuns(pieces)) {
    sums_.push_back({&bucket, piece, positions, place});
    elements_ += piece.elements() * positions;
  }
}

void TensorSums::Run() {
  if (sums_.empty()) return;
  const at::Tensor message = at::zeros({elements_}, sums_[0].bucket->shard_gradient().options());
  const auto visit = [&](const auto& copy) {
    int64_t begin = 0;
    for (const Summed& sum : sums_) {
      const int64_t size = sum.piece.elements();
      copy(message.narrow(0, begin + sum.place * size, size).view(sum.piece.extent),
           View(sum.bucket->shard_gradient(), sum.piece));
      begin += sum.positions * size;
    }
  };
  visit([](const at::Tensor& in_message, const at::Tensor& gradient) { in_message.copy_(gradient); });
  AllReduce(message, group_);
  visit([](const at::Tensor& in_message, const at::Tensor& gradient) { gradient.copy_(in_message); });
}

}  // namespace trireme
