// Interpolation to a larger or smaller size, and its backward.
#include <ATen/ATen.h>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

using Scale = std::optional<double>;

// What the wheel passes when a program gave no scale depends on the operator: -1, 0 or 1. With a scale of 1
// both sizes are equal, and so is everything derived from them.
Scale Given(double scale) { return scale <= 0 || scale == 1 ? std::nullopt : Scale(scale); }

}  // namespace

OP(aclnnUpsampleNearest1dV2,
   [](Tensor self, Ints size, float scale, Tensor out) { out.copy_(at::upsample_nearest1d(self, size, Given(scale))); })
OP(aclnnUpsampleNearest1dBackward, [](Tensor grad, Ints size, Ints input_size, double scale, Tensor out) {
  out.copy_(at::upsample_nearest1d_backward(grad, size, input_size, Given(scale)));
})
OP(aclnnUpsampleNearest2dV2, [](Tensor self, Ints size, float height, float width, Tensor out) {
  out.copy_(at::upsample_nearest2d(self, size, Given(height), Given(width)));
})
OP(aclnnUpsampleNearest2dBackward,
   [](Tensor grad, Ints size, Ints input_size, double height, double width, Tensor out) {
     out.copy_(at::upsample_nearest2d_backward(grad, size, input_size, Given(height), Given(width)));
   })
OP(aclnnUpsampleNearest3d, [](Tensor self, Ints size, double depth, double height, double width, Tensor out) {
  out.copy_(at::upsample_nearest3d(self, size, Given(depth), Given(height), Given(width)));
})
OP(aclnnUpsampleNearest3dBackward,
   [](Tensor grad, Ints size, Ints input_size, double depth, double height, double width, Tensor out) {
     out.copy_(at::upsample_nearest3d_backward(grad, size, input_size, Given(depth), Given(height), Given(width)));
   })

OP(aclnnUpsampleNearestExact1d, [](Tensor self, Ints size, double scale, Tensor out) {
  out.copy_(at::_upsample_nearest_exact1d(self, size, Given(scale)));
})
OP(aclnnUpsampleNearestExact1dBackward, [](Tensor grad, Ints size, Ints input_size, double scale, Tensor out) {
  out.copy_(at::_upsample_nearest_exact1d_backward(grad, size, input_size, Given(scale)));
})
OP(aclnnUpsampleNearestExact2d, [](Tensor self, Ints size, double height, double width, Tensor out) {
  out.copy_(at::_upsample_nearest_exact2d(self, size, Given(height), Given(width)));
})
OP(aclnnUpsampleNearestExact2dBackward,
   [](Tensor grad, Ints size, Ints input_size, double height, double width, Tensor out) {
     out.copy_(at::_upsample_nearest_exact2d_backward(grad, size, input_size, Given(height), Given(width)));
   })

OP(aclnnUpsampleLinear1d, [](Tensor self, Ints size, bool corners, double scale, Tensor out) {
  out.copy_(at::upsample_linear1d(self, size, corners, Given(scale)));
})
OP(aclnnUpsampleLinear1dBackward, [](Tensor grad, Ints size, Ints input_size, bool corners, double scale, Tensor out) {
  out.copy_(at::upsample_linear1d_backward(grad, size, input_size, corners, Given(scale)));
})
OP(aclnnUpsampleBilinear2d, [](Tensor self, Ints size, bool corners, double height, double width, Tensor out) {
  out.copy_(at::upsample_bilinear2d(self, size, corners, Given(height), Given(width)));
})
OP(aclnnUpsampleBilinear2dBackwardV2,
   [](Tensor grad, Ints size, Ints input_size, bool corners, double height, double width, Tensor out) {
     out.copy_(at::upsample_bilinear2d_backward(grad, size, input_size, corners, Given(height), Given(width)));
   })
OP(aclnnUpsampleBicubic2d, [](Tensor self, Ints size, bool corners, double height, double width, Tensor out) {
  out.copy_(at::upsample_bicubic2d(self, size, corners, Given(height), Given(width)));
})
OP(aclnnUpsampleBicubic2dBackward,
   [](Tensor grad, Ints size, Ints input_size, bool corners, double height, double width, Tensor out) {
     out.copy_(at::upsample_bicubic2d_backward(grad, size, input_size, corners, Given(height), Given(width)));
   })
OP(aclnnUpsampleTrilinear3d,
   [](Tensor self, Ints size, bool corners, double depth, double height, double width, Tensor out) {
     out.copy_(at::upsample_trilinear3d(self, size, corners, Given(depth), Given(height), Given(width)));
   })
OP(aclnnUpsampleTrilinear3dBackward,
   [](Tensor grad, Ints size, Ints input_size, bool corners, double depth, double height, double width, Tensor out) {
     out.copy_(
         at::upsample_trilinear3d_backward(grad, size, input_size, corners, Given(depth), Given(height), Given(width)));
   })
