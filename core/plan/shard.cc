// Shards from placements: the parts of local boxes that a flat range covers.
#include "core/plan/shard.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

int64_t Dot(const Shape& a, const Shape& b) {
  int64_t sum = 0;
  for (size_t dim = 0; dim < a.size(); ++dim) sum += a[dim] * b[dim];
  return sum;
}

bool Inside(const Box& box, const Shape& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (box.offset[dim] < 0 || box.extent[dim] < 0 || box.offset[dim] + box.extent[dim] > shape[dim]) return false;
  }
  return true;
}

}  // namespace

Shard::Shard(std::string key_, DType dtype_, Shape global_shape_, Shape strides_, std::vector<ShardBox> boxes_,
             void* data_)
    : key(std::move(key_)),
      dtype(dtype_),
      global_shape(std::move(global_shape_)),
      strides(std::move(strides_)),
      boxes(std::move(boxes_)),
      data(data_) {
  if (key.empty()) throw InputError("a shard of shape ", ShapeText(global_shape), " has no key");
  if (strides.size() != global_shape.size()) {
    throw InputError(key, ": ", strides.size(), " strides for the shape ", ShapeText(global_shape));
  }
  for (const ShardBox& box : boxes) {
    if (!Inside(box.global, global_shape)) {
      throw InputError(key, ": box ", ToText(box.global), " is not inside the shape ", ShapeText(global_shape));
    }
    if (box.offset < 0 || box.replica < 0) {
      throw InputError(key, ": box ", ToText(box.global), " has offset ", box.offset, " and replica ", box.replica,
                       "; wanted both at least 0");
    }
    if (data == nullptr && box.global.elements() > 0) {
      throw InputError(key, ": box ", ToText(box.global), " has no memory");
    }
  }
}

Shard FlatShard(const Placement& placement, int rank, const FlatShare& share, std::string key, DType dtype,
                void* data) {
  const Shape local_shape = placement.LocalShape();
  const Shape strides = RowMajorStrides(local_shape);
  std::vector<ShardBox> boxes;
  for (const FlatPiece& piece : FlatRangeBoxes(local_shape, share.begin, share.end)) {
    for (const LocalBox& held : placement.LocalBoxes(rank, share.distinct)) {
      const auto common = Intersect(piece.box, {held.local_offset, held.global.extent});
      if (!common) continue;  // padding, or another block
      ShardBox box = {{held.global.offset, common->extent}, Dot(common->offset, strides) - share.begin, held.replica};
      for (size_t dim = 0; dim < local_shape.size(); ++dim) {
        box.global.offset[dim] += common->offset[dim] - held.local_offset[dim];
      }
      boxes.push_back(std::move(box));
    }
  }
  return Shard(std::move(key), dtype, placement.GlobalShape(), strides, std::move(boxes), data);
}

}  // namespace trireme
