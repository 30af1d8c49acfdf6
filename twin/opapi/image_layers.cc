// Layers over images besides convolution and pooling: padding by reflection and replication, im2col, grid sampling.
// The backward stands beside the forward. Padding with a constant is in index.cc.
#include <ATen/ATen.h>

#include <array>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

using TwoGradients = std::tuple<Tensor, Tensor>;

std::array<bool, 2> FirstTwo(const Bools& mask) { return {mask.at(0) != 0, mask.at(1) != 0}; }

void CopyTwo(const std::array<bool, 2>& wanted, const TwoGradients& found, const Tensor& first, const Tensor& second) {
  if (wanted[0]) first.copy_(std::get<0>(found));
  if (wanted[1]) second.copy_(std::get<1>(found));
}

}  // namespace

#define PADDING(upper, lower)                                                                    \
  OP(aclnn##upper, [](Tensor x, Ints padding, Tensor out) { out.copy_(at::lower(x, padding)); }) \
  OP(aclnn##upper##Backward,                                                                     \
     [](Tensor grad, Tensor x, Ints padding, Tensor grad_x) { grad_x.copy_(at::lower##_backward(grad, x, padding)); })
PADDING(ReflectionPad1d, reflection_pad1d)
PADDING(ReflectionPad2d, reflection_pad2d)
PADDING(ReflectionPad3d, reflection_pad3d)
PADDING(ReplicationPad1d, replication_pad1d)
PADDING(ReplicationPad2d, replication_pad2d)
PADDING(ReplicationPad3d, replication_pad3d)

OP(aclnnIm2col, [](Tensor x, Ints kernel, Ints dilation, Ints padding, Ints stride, Tensor out) {
  out.copy_(at::im2col(x, kernel, dilation, padding, stride));
})
OP(aclnnIm2colBackward, [](Tensor columns, Ints size, Ints kernel, Ints dilation, Ints padding, Ints stride,
                           Tensor out) { out.copy_(at::col2im(columns, size, kernel, dilation, padding, stride)); })

#define GRID_SAMPLER(dims, lower)                                                                                 \
  OP(aclnnGridSampler##dims, [](Tensor x, Tensor grid, int64_t mode, int64_t padding, bool corners, Tensor out) { \
    out.copy_(at::lower(x, grid, mode, padding, corners));                                                        \
  })                                                                                                              \
  OP(aclnnGridSampler##dims##Backward, [](Tensor grad, Tensor x, Tensor grid, int64_t mode, int64_t padding,      \
                                          bool corners, Bools mask, Tensor grad_x, Tensor grad_grid) {            \
    const auto wanted = FirstTwo(mask);                                                                           \
    CopyTwo(wanted, at::lower##_backward(grad, x, grid, mode, padding, corners, wanted), grad_x, grad_grid);      \
  })
GRID_SAMPLER(2D, grid_sampler_2d)
GRID_SAMPLER(3D, grid_sampler_3d)
