// UpdateRule: how an optimizer turns the gradient of a run of elements into new values. Which elements decay, what the
// learning rate is and how gradients are clipped, the caller decides.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ops/flat/update_numbers.h"

namespace trireme {

// All contiguous and of one size. Masters and states are fp32 or bf16: computed in fp32, rounded when written.
struct UpdateTensors {
  at::Tensor master;
  std::vector<at::Tensor> states;  // in the order of OptimizerStates; zero before the first update
  at::Tensor gradient;             // fp32, read only
  at::Tensor parameter;            // receives the new master values in its own type; undefined: there is none
};

using UpdateRule = void (*)(const UpdateTensors& tensors, const UpdateNumbers& numbers);

// Of an optimizer of the list; refuses another name.
UpdateRule UpdateRuleOf(const std::string& optimizer);

}  // namespace trireme
