// The gated delta rule as it is defined, token by token: the reference, by ATen's own autograd.
#pragma once

#include "ops/gated_delta/gated_delta.h"

namespace trireme {

// states: as GatedDeltaOnward's, or undefined: empty, and not wanted afterwards.
at::Tensor RecurrentDelta(const DeltaInputs& inputs, const DeltaChunks& chunks, const at::Tensor& states);

}  // namespace trireme
