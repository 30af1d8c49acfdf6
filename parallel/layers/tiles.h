// What towers have whose images are cut into tiles of one size: class tokens, a learned position for each state of a
// tile, and vectors that scale what a block adds (layer scale). The weights outlive the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/layers/weights.h"

namespace trireme {

// x: [tiles · patches, hidden]. Returns [tiles · (1 + patches), hidden]: the class token, then the patches of each
// tile, plus the positions at `places` [1 + patches].
at::Tensor WithClassTokens(const at::Tensor& x, const at::Tensor& places, const Weight& class_token,
                           const Weight& positions);

// Without the class tokens of tiles of side · side patches; 0: there are none.
at::Tensor PatchStates(const at::Tensor& x, int64_t side);

// x · scale: [hidden]; nullptr: x.
at::Tensor LayerScale(const at::Tensor& x, const Weight* scale);

}  // namespace trireme
