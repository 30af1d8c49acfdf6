// WholeTensors: optimizers whose update of an element depends on its whole tensor, as the files have it: Adafactor's
// means over rows and columns, the blocks of 8-bit moments. What belongs to a whole tensor is the same on all ranks of
// a pipeline stage, so that every layout gives the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/sharding/shard_tensors.h"
#include "parallel/sharding/update_rule.h"

namespace trireme {

struct WholeTensor {
  ShardTensor shard;
  bool decayed = false;
  double lr_factor = 1;
  std::map<std::string, at::Tensor> states = {};  // fp32, by names of WholeStates; zero before the first update

  at::Tensor State(const std::string& name) const { return states.at(name); }
};

struct AdafactorOptions {
  bool scale_parameter = false;
  double clip = 1;
  double decay = 0.8;
};

// By name, those that a tensor of this shape has.
using StateShapes = std::map<std::string, Shape>;
StateShapes AdafactorStates(const Shape& shape);
StateShapes Adam8BitStates(const Shape& shape);

// One update of a bucket's shard. Collective over the ranks of the stage, all of which have the same tensors.
void StepAdafactor(const std::vector<WholeTensor>& tensors, const UpdateTensors& shard, const UpdateNumbers& numbers,
                   const AdafactorOptions& options, Communicator& stage);
// shard.states: the two moments' codes, one byte each.
void StepAdam8Bit(const std::vector<WholeTensor>& tensors, const UpdateTensors& shard, const UpdateNumbers& numbers,
                  Communicator& stage);

}  // namespace trireme
