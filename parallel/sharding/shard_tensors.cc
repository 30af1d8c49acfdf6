#include "parallel/sharding/shard_tensors.h"

#include <ATen/ATen.h>

#include <map>

#include "core/plan/file_pieces.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

at::Tensor ShardPiece::Of(const at::Tensor& shard) const {
  return shard.as_strided(box.extent, strides, shard.storage_offset() + offset);
}

at::Tensor ShardPiece::In(const at::Tensor& whole) const {
  at::Tensor view = whole;
  for (size_t dim = 0; dim < box.extent.size(); ++dim) {
    view = view.narrow(static_cast<int64_t>(dim), box.offset[dim], box.extent[dim]);
  }
  return view;
}

std::vector<ShardTensor> ShardTensorsOf(const Bucket& bucket) {
  std::vector<ShardTensor> tensors;
  std::map<const HfTensor*, size_t> index;
  for (const Weights::Entry* entry : bucket.entries()) {
    for (const HfTensor& file : entry->parameter.hf) {
      index[&file] = tensors.size();
      tensors.push_back({.parameter = &entry->parameter, .file = &file});
    }
  }
  float somewhere = 0;  // pieces are numbers; nothing is read
  for (const FlatPart& part : bucket.parts()) {
    const Shard shard = bucket.ShardOf({part.parameter, part.elements, 0}, "shard", DType::kFp32, &somewhere);
    for (const FilePiece& piece : FilePieces(bucket.entries()[part.parameter]->parameter, shard)) {
      tensors.at(index.at(piece.tensor))
          .pieces.push_back({.box = piece.box,
                             .offset = part.offset + piece.offset,
                             .strides = piece.strides,
                             .owned = piece.replica == 0});
    }
  }
  return tensors;
}

void AllReduceTogether(const std::vector<at::Tensor>& tensors, Communicator& group, ReduceOp op) {
  if (tensors.empty()) return;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.flatten());
  const at::Tensor all = at::cat(flat);
  AllReduce(all, group, op);
  int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(all.narrow(0, offset, tensor.numel()).view_as(tensor));
    offset += tensor.numel();
  }
}

}  // namespace trireme
