#include "ops/qkv_norm_rope/ascendc.h"

#include "aclrtlaunch_split_heads.h"
#include "aclrtlaunch_split_heads_backward.h"

namespace trireme::ascendc {

namespace {

constexpr uint64_t kLargestHead = 1024;  // elements: a dozen buffers of one head fit into a core

uint32_t Norms(const HeadArgs& args) {
  return (args.query_norm != nullptr ? 1u : 0u) | (args.key_norm != nullptr ? 2u : 0u);
}

}  // namespace

const char* WhyNotHeads(const HeadShape& shape) {
  return shape.dim > kLargestHead ? "heads are larger than 1024 elements" : nullptr;
}

uint32_t SplitHeadsBlocks(const KernelPlace& place, const HeadShape& s) {
  return TileRows(s.tokens, 1, 64, place).blocks;
}

void SplitHeads(const KernelPlace& place, Element element, const HeadShape& s, const HeadArgs& a) {
  if (s.tokens == 0) return;
  Launched(ACLRT_LAUNCH_KERNEL(split_heads)(
               SplitHeadsBlocks(place, s), place.stream, Address(a.qkv), Address(a.query_norm), Address(a.key_norm),
               Address(a.cosine), Address(a.sine), a.query, a.key, a.value, a.scales, static_cast<uint32_t>(element),
               Size32(s.tokens, "tokens"), Size32(s.length, "tokens"), Size32(s.heads, "heads"),
               Size32(s.kv_heads, "heads"), Size32(s.dim, "elements"), Size32(s.half, "elements"), Norms(a), s.eps),
           "split_heads");
}

void SplitHeadsBackward(const KernelPlace& place, Element element, const HeadShape& s, const HeadArgs& a,
                        void* qkv_gradient, float* norm_sums) {
  if (s.tokens == 0) return;
  Launched(ACLRT_LAUNCH_KERNEL(split_heads_backward)(
               SplitHeadsBlocks(place, s), place.stream, Address(a.qkv), Address(a.query_norm), Address(a.key_norm),
               Address(a.cosine), Address(a.sine), a.query, a.key, a.value, a.scales, qkv_gradient, norm_sums,
               static_cast<uint32_t>(element), Size32(s.tokens, "tokens"), Size32(s.length, "tokens"),
               Size32(s.heads, "heads"), Size32(s.kv_heads, "heads"), Size32(s.dim, "elements"),
               Size32(s.half, "elements"), Norms(a), s.eps),
           "split_heads_backward");
}

}  // namespace trireme::ascendc
