// Sums, matmuls, softmax, pooling, batch norm and changes of shape that the torch_npu wheel requests by their
// older names: those on a tensor in an internal format (see named_elementwise.cc). Arguments are in the order
// of CANN's operator definitions; computed in fp32 where the tensors are narrower.
#include <numeric>
#include <optional>

#include "twin/opapi/named.h"

namespace twin::layers_by_name {
namespace {

using at::Tensor;
using Ints = std::vector<int64_t>;

// The dims to reduce over: a list as the second input, or an attribute; none: all.
Ints AxesOf(const NamedCall& call, int64_t dims) {
  Ints axes = IsGiven(call, 1) ? ListOf(call.inputs[1]) : AttributeOr(call, "axes", Ints());
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(dims));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}
template <auto function>
void ReduceNamed(const NamedCall& call) {
  const Tensor x = WideView(call.inputs.at(0));
  Put(call, 0, function(x, AxesOf(call, x.dim())));
}
template <auto function>
struct Reduction : Named {
  explicit Reduction(const char* name) : Named(name, &RunNamed<ReduceNamed<function>>) {}
};
using T = const Tensor&;
const Reduction<[](T x, const Ints& axes) { return x.sum(axes); }> sum("ReduceSum"), sum_d("ReduceSumD");
const Reduction<[](T x, const Ints& axes) { return x.mean(axes); }> mean("ReduceMean"), mean_d("ReduceMeanD");
const Reduction<[](T x, const Ints& axes) { return x.amax(axes); }> max("ReduceMax"), max_d("ReduceMaxD");
const Reduction<[](T x, const Ints& axes) { return x.amin(axes); }> min("ReduceMin"), min_d("ReduceMinD");

void MultiplyMatrices(const NamedCall& call, const char* first_transposed, const char* second_transposed) {
  Tensor a = WideView(call.inputs.at(0)), b = WideView(call.inputs.at(1));
  if (AttributeOr(call, first_transposed, false)) a = a.transpose(-1, -2);
  if (AttributeOr(call, second_transposed, false)) b = b.transpose(-1, -2);
  const Tensor product = a.matmul(b);
  Put(call, 0, IsGiven(call, 2) ? product + WideView(call.inputs[2]) : product);
}
void MatMul(const NamedCall& call) { MultiplyMatrices(call, "transpose_x1", "transpose_x2"); }
const Named mat_mul("MatMul", &RunNamed<MatMul>), mat_mul_v2("MatMulV2", &RunNamed<MatMul>);
void BatchMatMul(const NamedCall& call) { MultiplyMatrices(call, "adj_x1", "adj_x2"); }
const Named batch_mat_mul("BatchMatMul", &RunNamed<BatchMatMul>),
    batch_mat_mul_v2("BatchMatMulV2", &RunNamed<BatchMatMul>);

int64_t OneAxis(const NamedCall& call, const char* name) {
  const auto axes = AttributeOr(call, name, Ints{-1});
  TORCH_CHECK(axes.size() == 1, "softmax over ", axes, " is not supported by the CANN twin");
  return axes[0];
}
void Softmax(const NamedCall& call) { Put(call, 0, WideView(call.inputs.at(0)).softmax(OneAxis(call, "axes"))); }
const Named softmax("SoftmaxV2", &RunNamed<Softmax>);
void SoftmaxGrad(const NamedCall& call) {  // of the result and its gradient
  const Tensor y = WideView(call.inputs.at(0)), dy = WideView(call.inputs.at(1));
  Put(call, 0, at::_softmax_backward_data(dy, y, OneAxis(call, "axes"), y.scalar_type()));
}
const Named softmax_grad("SoftmaxGrad", &RunNamed<SoftmaxGrad>);
void LogSoftmax(const NamedCall& call) { Put(call, 0, WideView(call.inputs.at(0)).log_softmax(OneAxis(call, "axes"))); }
const Named log_softmax("LogSoftmaxV2", &RunNamed<LogSoftmax>);
void LogSoftmaxGrad(const NamedCall& call) {  // of the result's gradient and the result
  const Tensor dy = WideView(call.inputs.at(0)), y = WideView(call.inputs.at(1));
  Put(call, 0, at::_log_softmax_backward_data(dy, y, OneAxis(call, "axis"), y.scalar_type()));
}
const Named log_softmax_grad("LogSoftmaxGrad", &RunNamed<LogSoftmaxGrad>);

void Transpose(const NamedCall& call) {
  View(call.outputs.at(0)).copy_(View(call.inputs.at(0)).permute(ListOf(call.inputs.at(1))));
}
const Named transpose("Transpose", &RunNamed<Transpose>);
void Concat(const NamedCall& call) {
  std::vector<Tensor> parts;
  for (const auto& input : call.inputs) parts.push_back(View(input));
  Put(call, 0, at::cat(parts, Attribute<int64_t>(call, "concat_dim")));
}
const Named concat("ConcatD", &RunNamed<Concat>);
void Slice(const NamedCall& call) {
  Tensor part = View(call.inputs.at(0));
  const Ints begins = ListOf(call.inputs.at(1)), sizes = ListOf(call.inputs.at(2));
  for (size_t dim = 0; dim < begins.size(); ++dim) {
    const auto d = static_cast<int64_t>(dim);
    part = part.narrow(d, begins[dim], sizes[dim] < 0 ? part.size(d) - begins[dim] : sizes[dim]);
  }
  Put(call, 0, part);
}
const Named slice("Slice", &RunNamed<Slice>);
void BroadcastTo(const NamedCall& call) {
  View(call.outputs.at(0)).copy_(View(call.inputs.at(0)).expand(call.outputs.at(0).dims));
}
const Named broadcast_to("BroadcastTo", &RunNamed<BroadcastTo>), expand("Expand", &RunNamed<BroadcastTo>);

// Lists are [1, height, width, 1]; the mask of where each maximum was stays empty, and the gradient finds them
// again.
struct MaxWindow {
  MaxWindow(const NamedCall& call, const char* dilations)
      : kernel(Inner(call, "ksize")),
        stride(Inner(call, "strides")),
        padding(Inner(call, "pads")),
        dilation(Inner(call, dilations)),
        ceil(AttributeOr(call, "ceil_mode", false)) {}
  static Ints Inner(const NamedCall& call, const char* name) {
    const auto all = Attribute<Ints>(call, name);
    TORCH_CHECK(all.size() == 4, name, " of max pooling is ", all, "; wanted four numbers");
    return {all[1], all[2]};
  }
  auto Maxima(const Tensor& x) const { return at::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil); }
  Ints kernel, stride, padding, dilation;
  bool ceil;
};
void MaxPool(const NamedCall& call) {
  Put(call, 0, std::get<0>(MaxWindow(call, "dilation").Maxima(WideView(call.inputs.at(0)))));
}
const Named max_pool("MaxPoolWithArgmaxV1", &RunNamed<MaxPool>);
void MaxPoolGrad(const NamedCall& call) {
  const MaxWindow w(call, "dilations");
  const Tensor x = WideView(call.inputs.at(0));
  Put(call, 0,
      at::max_pool2d_with_indices_backward(WideView(call.inputs.at(1)), x, w.kernel, w.stride, w.padding, w.dilation,
                                           w.ceil, std::get<1>(w.Maxima(x))));
}
const Named max_pool_grad("MaxPoolGradWithArgmaxV1", &RunNamed<MaxPoolGrad>);

// Lists are [1, 1, height, width], paddings [top, bottom, left, right], where the second of a dim may be larger
// as a rounded-up size needs it.
struct MeanWindow {
  explicit MeanWindow(const NamedCall& call)
      : ceil(AttributeOr(call, "ceil_mode", false)), counts_padding(!AttributeOr(call, "exclusive", true)) {
    const auto sizes = Attribute<Ints>(call, "ksize"), strides = Attribute<Ints>(call, "strides"),
               pads = Attribute<Ints>(call, "pads");
    TORCH_CHECK(sizes.size() == 4 && strides.size() == 4 && pads.size() == 4, "average pooling with ksize ", sizes,
                ", strides ", strides, ", pads ", pads, "; wanted four numbers each");
    kernel = {sizes[2], sizes[3]}, stride = {strides[2], strides[3]}, padding = {pads[0], pads[2]};
    if (const auto given = AttributeOr(call, "divisor_override", int64_t{0}); given != 0) divisor = given;
  }
  Ints kernel, stride, padding;
  bool ceil, counts_padding;
  std::optional<int64_t> divisor;
};
void AvgPool(const NamedCall& call) {
  const MeanWindow w(call);
  Put(call, 0,
      at::avg_pool2d(WideView(call.inputs.at(0)), w.kernel, w.stride, w.padding, w.ceil, w.counts_padding, w.divisor));
}
const Named avg_pool("AvgPoolV2", &RunNamed<AvgPool>);
void AvgPoolGrad(const NamedCall& call) {  // of the input's shape and the output's gradient
  const MeanWindow w(call);
  const Tensor dy = WideView(call.inputs.at(1)), x = at::empty(call.outputs.at(0).dims, dy.options());
  Put(call, 0, at::avg_pool2d_backward(dy, x, w.kernel, w.stride, w.padding, w.ceil, w.counts_padding, w.divisor));
}
const Named avg_pool_grad("AvgPoolV2Grad", &RunNamed<AvgPoolGrad>);

Tensor ChannelOf(const NamedCall& call, size_t input, const Tensor& x) {
  Ints shape(static_cast<size_t>(x.dim()), 1);
  shape.at(1) = x.size(1);
  return WideView(call.inputs.at(input)).reshape(shape);
}
double EpsilonOf(const NamedCall& call) { return static_cast<double>(AttributeOr(call, "epsilon", 1e-5f)); }
Tensor SumOverChannels(const Tensor& x) { return x.transpose(0, 1).flatten(1).sum(1); }

// From x and its channels' sums and sums of squares: the normalised x, the running statistics, the batch's own.
void BatchNormUpdate(const NamedCall& call) {
  const Tensor x = WideView(call.inputs.at(0));
  const double count = static_cast<double>(x.numel() / x.size(1));
  const double momentum = static_cast<double>(Attribute<float>(call, "factor"));
  const Tensor mean = WideView(call.inputs.at(1)).flatten() / count;
  const Tensor variance = WideView(call.inputs.at(2)).flatten() / count - mean.square();
  const auto wide = [&](const Tensor& channel) { return channel.view_as(ChannelOf(call, 3, x)); };
  const Tensor scale = ChannelOf(call, 3, x) * wide((variance + EpsilonOf(call)).rsqrt());
  Put(call, 0, (x - wide(mean)) * scale + ChannelOf(call, 4, x));
  Put(call, 1, WideView(call.inputs.at(5)).flatten() * (1 - momentum) + mean * momentum);
  Put(call, 2, WideView(call.inputs.at(6)).flatten() * (1 - momentum) + variance * (count / (count - 1)) * momentum);
  Put(call, 3, mean);
  Put(call, 4, variance);
}
const Named batch_norm_update("BNTrainingUpdate", &RunNamed<BatchNormUpdate>);

void BatchNormInfer(const NamedCall& call) {
  const Tensor x = WideView(call.inputs.at(0));
  const Tensor scale = ChannelOf(call, 1, x) * (ChannelOf(call, 4, x) + EpsilonOf(call)).rsqrt();
  Put(call, 0, (x - ChannelOf(call, 3, x)) * scale + ChannelOf(call, 2, x));
}
const Named batch_norm_infer("BNInfer", &RunNamed<BatchNormInfer>);
void BatchNormInferGrad(const NamedCall& call) {
  const Tensor dy = WideView(call.inputs.at(0));
  Put(call, 0, dy * ChannelOf(call, 1, dy) * (ChannelOf(call, 2, dy) + EpsilonOf(call)).rsqrt());
}
const Named batch_norm_infer_grad("BNInferGrad", &RunNamed<BatchNormInferGrad>);

// The gradients of scale and offset, then from them the one of x.
void BatchNormUpdateGrad(const NamedCall& call) {
  const Tensor dy = WideView(call.inputs.at(0)), x = WideView(call.inputs.at(1));
  const Tensor normed = (x - ChannelOf(call, 2, x)) * (ChannelOf(call, 3, x) + EpsilonOf(call)).rsqrt();
  Put(call, 0, SumOverChannels(dy * normed));
  Put(call, 1, SumOverChannels(dy));
}
const Named batch_norm_update_grad("BNTrainingUpdateGrad", &RunNamed<BatchNormUpdateGrad>);
void BatchNormReduceGrad(const NamedCall& call) {
  const Tensor dy = WideView(call.inputs.at(0)), x = WideView(call.inputs.at(1));
  const double count = static_cast<double>(x.numel() / x.size(1));
  const Tensor inverse = (ChannelOf(call, 6, x) + EpsilonOf(call)).rsqrt(),
               normed = (x - ChannelOf(call, 5, x)) * inverse;
  Put(call, 0,
      (dy - ChannelOf(call, 3, x) / count - normed * ChannelOf(call, 2, x) / count) * ChannelOf(call, 4, x) * inverse);
}
const Named batch_norm_reduce_grad("BNTrainingReduceGrad", &RunNamed<BatchNormReduceGrad>);

}  // namespace
}  // namespace twin::layers_by_name
