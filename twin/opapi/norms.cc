// Batch and group norm and their backward, the parts of a batch norm over several ranks, and the layer norms of a
// sum. Plain layer norm is in neural.cc.
#include <ATen/ATen.h>

#include "twin/opapi/masked_gradients.h"
#include "twin/opapi/named.h"
#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

// An output that the caller omitted, or made empty, is not written.
void Put(const Optional<Tensor>& to, const Tensor& values) {
  if (to && to->numel() > 0) to->copy_(values);
}

// All dims but the channels'.
Ints OverChannels(const Tensor& x) {
  Ints dims{0};
  for (int64_t dim = 2; dim < x.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// A per-channel value, broadcast over x.
Tensor PerChannel(const Tensor& values, const Tensor& x) {
  Ints shape(x.dim(), 1);
  shape[1] = x.size(1);
  return values.to(at::kFloat).view(shape);
}

Tensor Weighted(const Tensor& invstd, const Optional<Tensor>& weight) {
  return weight && weight->defined() ? invstd * weight->to(at::kFloat) : invstd.to(at::kFloat);
}

// The layer norm over the dims of gamma, with the gradients' three parts. Everything in fp32.
struct SumNorm {
  Tensor x, gamma;
  Ints normed, rest;

  SumNorm(const Tensor& sum, const Tensor& weight) : x(sum), gamma(weight.to(at::kFloat)) {
    const int64_t first = x.dim() - gamma.dim();
    for (int64_t dim = 0; dim < x.dim(); ++dim) (dim < first ? rest : normed).push_back(dim);
  }
  void Forward(const Tensor& beta, double eps, const Tensor& out, const Tensor& mean, const Tensor& rstd) const {
    const auto [variance, middle] = at::var_mean(x, normed, /*unbiased=*/false, /*keepdim=*/true);
    const Tensor scale = at::rsqrt(variance + eps);
    out.copy_((x - middle) * scale * gamma + beta.to(at::kFloat));
    mean.copy_(middle.view_as(mean));
    rstd.copy_(scale.view_as(rstd));
  }
  // Returns the gradient of x.
  Tensor Backward(const Tensor& grad, const Tensor& mean, const Tensor& rstd, const Tensor& grad_gamma,
                  const Tensor& grad_beta) const {
    const Tensor wide = grad.to(at::kFloat), unit = (x - mean) * rstd, along = wide * gamma;
    grad_gamma.copy_(rest.empty() ? wide * unit : (wide * unit).sum(rest));
    grad_beta.copy_(rest.empty() ? wide : wide.sum(rest));
    return rstd * (along - along.mean(normed, true) - unit * (along * unit).mean(normed, true));
  }
};

}  // namespace

OP(aclnnBatchNorm, [](Tensor input, Optional<Tensor> weight, Optional<Tensor> bias, Optional<Tensor> mean,
                      Optional<Tensor> variance, bool training, double momentum, double eps, Tensor out,
                      Optional<Tensor> saved_mean, Optional<Tensor> saved_invstd) {
  const auto [normed, found_mean, found_invstd] =
      at::native_batch_norm(input, weight, bias, mean, variance, training, momentum, eps);
  out.copy_(normed);
  if (!training) return;  // later wheels give room for them all the same
  Put(saved_mean, found_mean);
  Put(saved_invstd, found_invstd);
})
OP(aclnnBatchNormBackward,
   [](Tensor grad, Tensor input, Optional<Tensor> weight, Optional<Tensor> mean, Optional<Tensor> variance,
      Optional<Tensor> saved_mean, Optional<Tensor> saved_invstd, bool training, double eps, Bools mask,
      Optional<Tensor> grad_input, Optional<Tensor> grad_weight, Optional<Tensor> grad_bias) {
     const auto wanted = twin::MakeGradientMask(mask);
     twin::CopyMasked(wanted,
                      at::native_batch_norm_backward(grad, input, weight, mean, variance, saved_mean, saved_invstd,
                                                     training, eps, wanted),
                      grad_input, grad_weight, grad_bias);
   })

OP(aclnnBatchNormStats, [](Tensor input, double eps, Tensor mean, Tensor invstd) {
  const auto [variance, middle] = at::var_mean(input.to(at::kFloat), OverChannels(input), /*unbiased=*/false);
  mean.copy_(middle);
  invstd.copy_((variance + eps).rsqrt());
})
// Combines each rank's statistics [ranks, channels] and counts [ranks].
OP(aclnnBatchNormGatherStatsWithCounts,
   [](Tensor, Tensor means, Tensor invstds, Optional<Tensor> running_mean, Optional<Tensor> running_variance,
      double momentum, double eps, Tensor counts, Tensor mean, Tensor invstd) {
     const Tensor count = counts.to(at::kDouble).view({-1, 1}), all = count.sum();
     const Tensor each = means.to(at::kDouble);
     const Tensor middle = (each * count).sum(0) / all;
     const Tensor squares = invstds.to(at::kDouble).pow(-2) - eps + each.square();
     const Tensor variance = (squares * count).sum(0) / all - middle.square();
     mean.copy_(middle);
     invstd.copy_((variance + eps).rsqrt());
     const auto follow = [&](const Optional<Tensor>& running, const Tensor& now) {
       if (running && running->defined()) running->copy_(*running * (1 - momentum) + now * momentum);
     };
     follow(running_mean, middle);
     follow(running_variance, variance * all / (all - 1));
   })
OP(aclnnBatchNormElemt,
   [](Tensor input, Optional<Tensor> weight, Optional<Tensor> bias, Tensor mean, Tensor invstd, double, Tensor out) {
     Tensor normed = (input - PerChannel(mean, input)) * PerChannel(Weighted(invstd, weight), input);
     if (bias && bias->defined()) normed = normed + PerChannel(*bias, input);
     out.copy_(normed);
   })
OP(aclnnBatchNormReduceBackward, [](Tensor grad, Tensor input, Tensor mean, Tensor invstd, Optional<Tensor>, bool, bool,
                                    bool, Optional<Tensor> sum_grad, Optional<Tensor> sum_product,
                                    Optional<Tensor> grad_weight, Optional<Tensor> grad_bias) {
  const Tensor wide = grad.to(at::kFloat);
  const Tensor sum = wide.sum(OverChannels(input));
  const Tensor product = (wide * (input - PerChannel(mean, input))).sum(OverChannels(input));
  Put(sum_grad, sum);
  Put(sum_product, product);
  Put(grad_weight, product * invstd);
  Put(grad_bias, sum);
})
OP(aclnnBatchNormElemtBackward, [](Tensor grad, Tensor input, Tensor mean, Tensor invstd, Optional<Tensor> weight,
                                   Tensor sum_grad, Tensor sum_product, Tensor counts, Tensor out) {
  const Tensor all = counts.to(at::kFloat).sum();
  const Tensor level = PerChannel(sum_grad / all, input);
  const Tensor slope = PerChannel(sum_product / all * invstd.square(), input);
  out.copy_((grad - level - (input - PerChannel(mean, input)) * slope) * PerChannel(Weighted(invstd, weight), input));
})

OP(aclnnGroupNorm, [](Tensor input, Optional<Tensor> weight, Optional<Tensor> bias, int64_t batch, int64_t channels,
                      int64_t pixels, int64_t groups, double eps, Tensor out, Tensor mean, Tensor rstd) {
  const auto [normed, found_mean, found_rstd] =
      at::native_group_norm(input, weight, bias, batch, channels, pixels, groups, eps);
  out.copy_(normed);
  mean.copy_(found_mean);
  rstd.copy_(found_rstd);
})
OP(aclnnGroupNormBackward, [](Tensor grad, Tensor input, Tensor mean, Tensor rstd, Optional<Tensor> weight,
                              int64_t batch, int64_t channels, int64_t pixels, int64_t groups, Bools mask,
                              Optional<Tensor> grad_input, Optional<Tensor> grad_weight, Optional<Tensor> grad_bias) {
  const auto wanted = twin::MakeGradientMask(mask);
  twin::CopyMasked(wanted,
                   at::native_group_norm_backward(grad.contiguous(), input.contiguous(), mean, rstd, weight, batch,
                                                  channels, pixels, groups, wanted),
                   grad_input, grad_weight, grad_bias);
})

// torch_npu's SyncBatchNorm looks its statistics up by name.
namespace {

using twin::Attribute;
using twin::Named;
using twin::NamedCall;
using twin::View;

// [n, c, …] to each channel's sum and sum of squares.
void BatchNormReduce(const NamedCall& call) {
  const Tensor x = View(call.inputs.at(0));
  const Tensor channels = x.transpose(0, 1).flatten(1).to(at::kDouble);
  View(call.outputs.at(0)).copy_(channels.sum(1));
  View(call.outputs.at(1)).copy_(channels.square().sum(1));
}
const Named batch_norm_reduce("BNTrainingReduce", &twin::RunNamed<BatchNormReduce>);

// From each rank's sums, sums of squares [ranks, c] and counts [ranks]: the combined mean and 1 / deviation,
// and the running statistics.
void BatchNormGather(const NamedCall& call) {
  const Tensor count = View(call.inputs.at(2)).to(at::kDouble).sum();
  const Tensor mean = View(call.inputs.at(0)).to(at::kDouble).sum(0) / count;
  const Tensor variance = View(call.inputs.at(1)).to(at::kDouble).sum(0) / count - mean.square();
  const auto momentum = static_cast<double>(Attribute<float>(call, "momentum"));
  View(call.outputs.at(0)).copy_(mean);
  View(call.outputs.at(1)).copy_((variance + static_cast<double>(Attribute<float>(call, "eps"))).rsqrt());
  const Tensor new_mean = View(call.inputs.at(3)) * (1 - momentum) + mean * momentum;
  const Tensor new_variance = View(call.inputs.at(4)) * (1 - momentum) + variance * count / (count - 1) * momentum;
  View(call.outputs.at(2)).copy_(new_mean);
  View(call.outputs.at(3)).copy_(new_variance);
}
const Named batch_norm_gather("SyncBatchNormGatherStats", &twin::RunNamed<BatchNormGather>);

}  // namespace

OP(aclnnAddLayerNorm, [](Tensor a, Tensor b, Tensor gamma, Tensor beta, Optional<Tensor> bias, double eps,
                         bool wants_sum, Tensor out, Tensor mean, Tensor rstd, Tensor sum) {
  Tensor x = a.to(at::kFloat) + b.to(at::kFloat);
  if (bias) x = x + bias->to(at::kFloat);
  SumNorm(x, gamma).Forward(beta, eps, out, mean, rstd);
  if (wants_sum) sum.copy_(x);
})
OP(aclnnAddLayerNormGrad, [](Tensor grad, Tensor a, Tensor b, Tensor rstd, Tensor mean, Tensor gamma,
                             Optional<Tensor> grad_sum, Tensor grad_x, Tensor grad_gamma, Tensor grad_beta) {
  const SumNorm norm(a.to(at::kFloat) + b.to(at::kFloat), gamma);
  const Tensor of_x = norm.Backward(grad, mean, rstd, grad_gamma, grad_beta);
  grad_x.copy_(grad_sum ? of_x + grad_sum->to(at::kFloat) : of_x);
})

OP(aclnnDeepNorm,
   [](Tensor x, Tensor gx, Tensor beta, Tensor gamma, double alpha, double eps, Tensor mean, Tensor rstd, Tensor out) {
     SumNorm(x.to(at::kFloat) * alpha + gx.to(at::kFloat), gamma).Forward(beta, eps, out, mean, rstd);
   })
OP(aclnnDeepNormGrad, [](Tensor grad, Tensor x, Tensor gx, Tensor gamma, Tensor mean, Tensor rstd, double alpha,
                         Tensor grad_x, Tensor grad_gx, Tensor grad_beta, Tensor grad_gamma) {
  const SumNorm norm(x.to(at::kFloat) * alpha + gx.to(at::kFloat), gamma);
  const Tensor of_sum = norm.Backward(grad, mean, rstd, grad_gamma, grad_beta);
  grad_x.copy_(of_sum * alpha);
  grad_gx.copy_(of_sum);
})
