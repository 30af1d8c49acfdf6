// The host side of the router's kernels: scores, the top k of them, and the gradient of the logits.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct RouterShape {
  uint64_t tokens, experts, top;
  bool sigmoid = false;    // softmax otherwise
  bool normalise = false;  // the chosen weights sum to `scale`
  float scale = 1;
  float eps = 0;                        // added to the normalising sum
  uint64_t groups = 1, top_groups = 1;  // of experts, and how many of them to choose from
  bool two_of_group = false;            // a group's score is the sum of its largest two, not its largest
};

// Why the kernel does not support this router; null if it does.
const char* WhyNotRouter(const RouterShape& shape);

// logits: [tokens, experts]; bias: [experts] fp32 or null, affects the choice only; probabilities: [tokens,
// experts] fp32; index, weights: [tokens, top], by descending score.
void RouterForward(const KernelPlace& place, Element element, const void* logits, const float* bias,
                   const RouterShape& shape, float* probabilities, int32_t* index, float* weights);

// probability_gradient may be null.
void RouterBackward(const KernelPlace& place, Element element, const float* probabilities, const int32_t* index,
                    const float* weight_gradient, const float* probability_gradient, const RouterShape& shape,
                    void* logit_gradient);

}  // namespace trireme::ascendc
