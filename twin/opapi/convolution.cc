// Convolutions of one to three dims, plain and transposed, and their backward: as aclnn functions, and under
// the older names that the torch_npu wheel uses unless torch.npu.config.allow_internal_format is False. An
// internal format has the same element order here, so converting to one is a copy.
#include <ATen/ATen.h>

#include "twin/opapi/masked_gradients.h"
#include "twin/opapi/named.h"
#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

OP(aclnnConvolution, [](Tensor input, Tensor weight, Optional<Tensor> bias, Ints stride, Ints padding, Ints dilation,
                        bool transposed, Ints output_padding, int64_t groups, Tensor out, int8_t) {
  out.copy_(at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups));
})
OP(aclnnConvolutionBackward,
   [](Tensor grad, Tensor input, Tensor weight, Optional<Ints> bias_sizes, Ints stride, Ints padding, Ints dilation,
      bool transposed, Ints output_padding, int64_t groups, Bools mask, int8_t, Optional<Tensor> grad_input,
      Optional<Tensor> grad_weight, Optional<Tensor> grad_bias) {
     const auto wanted = twin::MakeGradientMask(mask);
     const at::OptionalIntArrayRef sizes = bias_sizes ? at::OptionalIntArrayRef(*bias_sizes) : std::nullopt;
     twin::CopyMasked(wanted,
                      at::convolution_backward(grad, input, weight, sizes, stride, padding, dilation, transposed,
                                               output_padding, groups, wanted),
                      grad_input, grad_weight, grad_bias);
   })

namespace {

using twin::Attribute;
using twin::Named;
using twin::NamedCall;
using twin::View;

// Lists are [batch, channels, height, width]; paddings [top, bottom, left, right], where both of a dim must
// be equal.
struct Window {
  explicit Window(const NamedCall& call) : groups(Attribute<int64_t>(call, "groups")) {
    const auto all_strides = Attribute<Ints>(call, "strides"), all_dilations = Attribute<Ints>(call, "dilations"),
               pads = Attribute<Ints>(call, "pads");
    TORCH_CHECK(all_strides.size() == 4 && all_dilations.size() == 4 && pads.size() == 4 && pads[0] == pads[1] &&
                    pads[2] == pads[3],
                "a convolution with strides ", all_strides, ", dilations ", all_dilations, ", pads ", pads,
                " is not supported by the CANN twin");
    stride = {all_strides[2], all_strides[3]};
    dilation = {all_dilations[2], all_dilations[3]};
    padding = {pads[0], pads[2]};
  }
  Ints stride, padding, dilation;
  int64_t groups;
};

std::optional<Tensor> Bias(const NamedCall& call, size_t index) {
  if (call.inputs.size() <= index || call.inputs[index].data == nullptr) return std::nullopt;
  return View(call.inputs[index]);
}

void Conv2d(const NamedCall& call) {
  const Window w(call);
  View(call.outputs.at(0))
      .copy_(at::conv2d(View(call.inputs.at(0)), View(call.inputs.at(1)), Bias(call, 2), w.stride, w.padding,
                        w.dilation, w.groups));
}
const Named conv2d("Conv2D", &twin::RunNamed<Conv2d>);

// The gradient with respect to the input or the filter. Of the unused tensor of the two, only the shape is
// read.
void Backprop(const NamedCall& call, const Tensor& input, const Tensor& filter, const Tensor& grad, size_t wanted) {
  const Window w(call);
  const auto [of_input, of_filter, of_bias] =
      at::convolution_backward(grad, input, filter, std::nullopt, w.stride, w.padding, w.dilation, false, {0, 0},
                               w.groups, {wanted == 0, wanted == 1, false});
  View(call.outputs.at(0)).copy_(wanted == 0 ? of_input : of_filter);
}
// Inputs: the input's shape (a list), the filter and the output's gradient.
void Conv2dBackpropInput(const NamedCall& call) {
  const Tensor filter = View(call.inputs.at(1));
  Backprop(call, at::empty(call.outputs.at(0).dims, filter.options()), filter, View(call.inputs.at(2)), 0);
}
const Named conv2d_backprop_input("Conv2DBackpropInput", &twin::RunNamed<Conv2dBackpropInput>);
// Inputs: the input, the filter's shape and the output's gradient.
void Conv2dBackpropFilter(const NamedCall& call) {
  const Tensor input = View(call.inputs.at(0));
  Backprop(call, input, at::empty(call.outputs.at(0).dims, input.options()), View(call.inputs.at(2)), 1);
}
const Named conv2d_backprop_filter("Conv2DBackpropFilter", &twin::RunNamed<Conv2dBackpropFilter>);

// Inputs: the output's shape, the input, the filter and a bias.
void Conv2dTranspose(const NamedCall& call) {
  const Window w(call);
  const Tensor input = View(call.inputs.at(1)), filter = View(call.inputs.at(2)), out = View(call.outputs.at(0));
  Ints output_padding;
  for (int64_t dim = 0; dim < 2; ++dim) {
    const int64_t reach = w.dilation[dim] * (filter.size(2 + dim) - 1) + 1;
    output_padding.push_back(out.size(2 + dim) -
                             ((input.size(2 + dim) - 1) * w.stride[dim] - 2 * w.padding[dim] + reach));
  }
  out.copy_(
      at::conv_transpose2d(input, filter, Bias(call, 3), w.stride, w.padding, output_padding, w.groups, w.dilation));
}
const Named conv2d_transpose("Conv2DTranspose", &twin::RunNamed<Conv2dTranspose>);

void CopyAcrossFormats(const NamedCall& call) {
  const Tensor out = View(call.outputs.at(0));
  out.copy_(View(call.inputs.at(0)).view_as(out));
}
const Named trans_data("TransData", &twin::RunNamed<CopyAcrossFormats>);
const Named identity("Identity", &twin::RunNamed<CopyAcrossFormats>);

}  // namespace
