// Average and max pooling, with given windows or a given output size, and their backward.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

// The divisor that overrides a window's size; 0: the size itself.
std::optional<int64_t> Divisor(int64_t given) { return given == 0 ? std::nullopt : std::optional<int64_t>(given); }

}  // namespace

OP(aclnnAvgPool2d,
   [](Tensor self, Ints kernel, Ints stride, Ints padding, bool ceil, bool count_padding, int64_t divisor, int8_t,
      Tensor out) { out.copy_(at::avg_pool2d(self, kernel, stride, padding, ceil, count_padding, Divisor(divisor))); })
OP(aclnnAvgPool2dBackward, [](Tensor grad, Tensor self, Ints kernel, Ints stride, Ints padding, bool ceil,
                              bool count_padding, int64_t divisor, int8_t, Tensor out) {
  out.copy_(at::avg_pool2d_backward(grad, self, kernel, stride, padding, ceil, count_padding, Divisor(divisor)));
})
OP(aclnnAvgPool3d,
   [](Tensor self, Ints kernel, Ints stride, Ints padding, bool ceil, bool count_padding, int64_t divisor, Tensor out) {
     out.copy_(at::avg_pool3d(self, kernel, stride, padding, ceil, count_padding, Divisor(divisor)));
   })
OP(aclnnAvgPool3dBackward, [](Tensor grad, Tensor self, Ints kernel, Ints stride, Ints padding, bool ceil,
                              bool count_padding, int64_t divisor, Tensor out) {
  out.copy_(at::avg_pool3d_backward(grad, self, kernel, stride, padding, ceil, count_padding, Divisor(divisor)));
})

// The device's mask of where each maximum was has a private layout. Here it stays empty, and the backward
// finds the maxima again.
OP(aclnnMaxPool2dWithMask,
   [](Tensor self, Ints kernel, Ints stride, Ints padding, Ints dilation, bool ceil, Tensor out, Tensor mask) {
     out.copy_(std::get<0>(at::max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil)));
     mask.zero_();
   })
OP(aclnnMaxPool2dWithMaskBackward,
   [](Tensor grad, Tensor self, Tensor, Ints kernel, Ints stride, Ints padding, Ints dilation, bool ceil, Tensor out) {
     const Tensor where = std::get<1>(at::max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil));
     out.copy_(at::max_pool2d_with_indices_backward(grad, self, kernel, stride, padding, dilation, ceil, where));
   })
OP(aclnnMaxPool3dWithArgmax,
   [](Tensor self, Ints kernel, Ints stride, Ints padding, Ints dilation, bool ceil, Tensor out, Tensor indices) {
     const auto [values, where] = at::max_pool3d_with_indices(self, kernel, stride, padding, dilation, ceil);
     out.copy_(values);
     indices.copy_(where);
   })
OP(aclnnMaxPool3dWithArgmaxBackward, [](Tensor grad, Tensor self, Tensor indices, Ints kernel, Ints stride,
                                        Ints padding, Ints dilation, bool ceil, Tensor out) {
  out.copy_(
      at::max_pool3d_with_indices_backward(grad, self, kernel, stride, padding, dilation, ceil, indices.to(at::kLong)));
})

OP(aclnnAdaptiveAvgPool2d, [](Tensor self, Ints size, Tensor out) { out.copy_(at::_adaptive_avg_pool2d(self, size)); })
OP(aclnnAdaptiveAvgPool2dBackward,
   [](Tensor grad, Tensor self, Tensor out) { out.copy_(at::_adaptive_avg_pool2d_backward(grad, self)); })
OP(aclnnAdaptiveAvgPool3d, [](Tensor self, Ints size, Tensor out) { out.copy_(at::_adaptive_avg_pool3d(self, size)); })
OP(aclnnAdaptiveAvgPool3dBackward,
   [](Tensor grad, Tensor self, Tensor out) { out.copy_(at::_adaptive_avg_pool3d_backward(grad, self)); })
OP(aclnnAdaptiveMaxPool2d, [](Tensor self, Ints size, Tensor out, Tensor indices) {
  const auto [values, where] = at::adaptive_max_pool2d(self, size);
  out.copy_(values);
  indices.copy_(where);
})
OP(aclnnAdaptiveMaxPool2dBackward, [](Tensor grad, Tensor self, Tensor indices, Tensor out) {
  out.copy_(at::adaptive_max_pool2d_backward(grad, self, indices.to(at::kLong)));
})
OP(aclnnAdaptiveMaxPool3d, [](Tensor self, Ints size, Tensor out, Tensor indices) {
  const auto [values, where] = at::adaptive_max_pool3d(self, size);
  out.copy_(values);
  indices.copy_(where);
})
OP(aclnnAdaptiveMaxPool3dBackward, [](Tensor grad, Tensor self, Tensor indices, Tensor out) {
  out.copy_(at::adaptive_max_pool3d_backward(grad, self, indices.to(at::kLong)));
})
