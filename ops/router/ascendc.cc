#include "ops/router/ascendc.h"

#include "aclrtlaunch_router_backward.h"
#include "aclrtlaunch_router_forward.h"

namespace trireme::ascendc {

namespace {

uint32_t Mode(const RouterShape& s, bool bias) {
  return (s.sigmoid ? 1u : 0u) | (bias ? 2u : 0u) | (s.normalise ? 4u : 0u) | (s.two_of_group ? 8u : 0u);
}

}  // namespace

const char* WhyNotRouter(const RouterShape& s) {
  if (s.experts > 4096) return "more than 4096 experts";
  if (s.groups == 0 || s.experts % s.groups != 0) return "groups differ in size";
  return s.top > s.experts ? "top_k is larger than the number of experts" : nullptr;
}

void RouterForward(const KernelPlace& place, Element element, const void* logits, const float* bias,
                   const RouterShape& s, float* probabilities, int32_t* index, float* weights) {
  if (s.tokens == 0) return;
  Launched(ACLRT_LAUNCH_KERNEL(router_forward)(
               TileRows(s.tokens, s.experts, 32, place).blocks, place.stream, Address(logits), Address(bias),
               probabilities, index, weights, static_cast<uint32_t>(element), Size32(s.tokens, "tokens"),
               Size32(s.experts, "experts"), Size32(s.top, "experts"), Mode(s, bias != nullptr), s.scale, s.eps,
               Size32(s.groups, "groups"), Size32(s.top_groups, "groups")),
           "router_forward");
}

void RouterBackward(const KernelPlace& place, Element element, const float* probabilities, const int32_t* index,
                    const float* weight_gradient, const float* probability_gradient, const RouterShape& s,
                    void* logit_gradient) {
  if (s.tokens == 0) return;
  Launched(ACLRT_LAUNCH_KERNEL(router_backward)(
               TileRows(s.tokens, s.experts, 32, place).blocks, place.stream, Address(probabilities), Address(index),
               Address(weight_gradient), Address(probability_gradient), logit_gradient, static_cast<uint32_t>(element),
               Size32(s.tokens, "tokens"), Size32(s.experts, "experts"), Size32(s.top, "experts"), Mode(s, false),
               s.scale, s.eps, probability_gradient != nullptr ? 1 : 0),
           "router_backward");
}

}  // namespace trireme::ascendc
