// ShardTensors: the files' tensors in a bucket, and where this rank's shard has elements of them: for optimizers whose
// update of an element depends on its whole tensor. Counts and views only.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/comm/communicator.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

struct ShardPiece {
  Box box;             // of the file's tensor
  int64_t offset = 0;  // of its first element in the shard
  Shape strides;
  bool owned = false;  // of the ranks of a pipeline stage one owns each element

  at::Tensor Of(const at::Tensor& shard) const;  // the piece's elements in a shard, [box.extent]
  at::Tensor In(const at::Tensor& whole) const;  // the same elements of the whole tensor
};

struct ShardTensor {
  const Parameter* parameter = nullptr;
  const HfTensor* file = nullptr;
  std::vector<ShardPiece> pieces = {};
};

// In the same order on every rank of the stage. The bucket outlives them.
std::vector<ShardTensor> ShardTensorsOf(const Bucket& bucket);

// One message for all of them; each becomes the sum, or maximum. Contiguous, fp32.
void AllReduceTogether(const std::vector<at::Tensor>& tensors, Communicator& group, ReduceOp op = ReduceOp::kSum);

}  // namespace trireme
