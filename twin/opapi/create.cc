// Operators that create values: fills, ranges, copies and casts, and random numbers. A random operator's
// numbers depend only on the seed and offset it receives; they are not those of the hardware.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "twin/opapi/bits.h"
#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

at::Generator Random(uint64_t seed, uint64_t offset) {
  constexpr uint64_t kMix = 0x9E37'79B9'7F4A'7C15;  // spreads neighbouring offsets over all seeds
  return at::detail::createCPUGenerator(seed ^ (offset * kMix));
}

}  // namespace

OP(aclnnInplaceZero, [](Tensor self) { self.zero_(); })
OP(aclnnInplaceOne, [](Tensor self) { self.fill_(1); })
OP(aclnnInplaceFillScalar, [](Tensor self, Scalar value) { self.fill_(value); })
OP(aclnnInplaceFillTensor, [](Tensor self, Tensor value) { self.copy_(value.expand_as(self)); })
OP(aclnnInplaceFillDiagonal, [](Tensor self, Scalar value, bool wrap) { self.fill_diagonal_(value, wrap); })
OP(aclnnInplaceCopy, [](Tensor self, Tensor source) { self.copy_(source); })
OP(aclnnCast, [](Tensor self, ScalarType, Tensor out) { out.copy_(self); })
OP(aclnnArange, [](Scalar start, Scalar end, Scalar step, Tensor out) { at::arange_out(out, start, end, step); })
OP(aclnnRange, [](Scalar start, Scalar end, Scalar step, Tensor out) { at::range_out(out, start, end, step); })
OP(aclnnLinspace, [](Scalar start, Scalar end, int64_t steps, Tensor out) { at::linspace_out(out, start, end, steps); })
OP(aclnnEye, [](int64_t n, int64_t m, Tensor out) { at::eye_out(out, n, m); })
OP(aclnnComplex, [](Tensor real, Tensor imag, Tensor out) { at::complex_out(out, real, imag); })
OP(aclnnOneHot, [](Tensor self, int64_t depth, Tensor on, Tensor off, int64_t axis, Tensor out) {
  const int64_t dim = axis < 0 ? self.dim() : axis;
  Ints shape(self.dim() + 1, 1);
  shape[dim] = depth;
  const Tensor is_class = self.unsqueeze(dim).eq(at::arange(depth, self.options()).view(shape));
  out.copy_(at::where(is_class, on, off));
})

OP(aclnnInplaceUniform, [](Tensor self, double from, double to, uint64_t seed, uint64_t offset) {
  self.uniform_(from, to, Random(seed, offset));
})
OP(aclnnInplaceNormal, [](Tensor self, float mean, float std, int64_t seed, int64_t offset) {
  self.normal_(mean, std, Random(seed, offset));
})
OP(aclnnNormalFloatFloat, [](float mean, float std, int64_t seed, int64_t offset, Tensor out) {
  out.normal_(mean, std, Random(seed, offset));
})
OP(aclnnNormalTensorFloat, [](Tensor mean, float std, int64_t seed, int64_t offset, Tensor out) {
  at::normal_out(out, mean, std, Random(seed, offset));
})
OP(aclnnNormalFloatTensor, [](float mean, Tensor std, int64_t seed, int64_t offset, Tensor out) {
  at::normal_out(out, mean, std, Random(seed, offset));
})
OP(aclnnNormalTensorTensor, [](Tensor mean, Tensor std, int64_t seed, int64_t offset, Tensor out) {
  at::normal_out(out, mean, std, Random(seed, offset));
})
OP(aclnnInplaceRandom, [](Tensor self, int64_t from, int64_t to, uint64_t seed, uint64_t offset) {
  self.random_(from, to, Random(seed, offset));
})
OP(aclnnInplaceBernoulli,
   [](Tensor self, Scalar p, uint64_t seed, uint64_t offset) { self.bernoulli_(p.toDouble(), Random(seed, offset)); })
OP(aclnnInplaceBernoulliTensor,
   [](Tensor self, Tensor p, uint64_t seed, uint64_t offset) { self.bernoulli_(p, Random(seed, offset)); })
OP(aclnnRandperm,
   [](int64_t n, uint64_t seed, uint64_t offset, Tensor out) { at::randperm_out(out, n, Random(seed, offset)); })
OP(aclnnMultinomial, [](Tensor self, int64_t samples, bool replacement, uint64_t seed, uint64_t offset, Tensor out) {
  at::multinomial_out(out, self, samples, replacement, Random(seed, offset));
})
OP(aclnnDropoutGenMaskV2, [](Ints shape, double p, uint64_t seed, uint64_t offset, ScalarType, Tensor mask) {
  twin::PackBits(at::empty(shape, at::kBool).bernoulli_(1 - p, Random(seed, offset)), mask);
})
OP(aclnnDropoutDoMask, [](Tensor self, Tensor mask, double p, Tensor out) {
  const Tensor kept = twin::UnpackBits(mask, 0, self.numel()).view(self.sizes());
  out.copy_(p == 1 ? at::zeros_like(self) : at::where(kept, self / (1 - p), 0));
})
