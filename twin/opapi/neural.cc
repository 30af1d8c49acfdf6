// Neural network operators: matmul, activations with their backward, normalisation, softmax, losses,
// embedding. The backward stands beside the forward. cube_math_type, a permission to compute in lower
// precision, is not used.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "twin/opapi/masked_gradients.h"
#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

Tensor OverChannelsOf(const Tensor& x, const Tensor& weight) {
  Ints shape(x.dim(), 1);
  if (x.dim() > 1) shape[1] = weight.numel();
  return weight.reshape(shape);
}

}  // namespace

OP(aclnnMm, [](Tensor self, Tensor other, Tensor out, int8_t) { at::mm_out(out, self, other); })
OP(aclnnMatmul, [](Tensor self, Tensor other, Tensor out, int8_t) { at::matmul_out(out, self, other); })
OP(aclnnBatchMatMul, [](Tensor self, Tensor other, Tensor out, int8_t) { at::bmm_out(out, self, other); })
OP(aclnnMv, [](Tensor self, Tensor vec, Tensor out, int8_t) { at::mv_out(out, self, vec); })
OP(aclnnDot, [](Tensor self, Tensor other, Tensor out) { at::dot_out(out, self, other); })
OP(aclnnAddmm, [](Tensor self, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  at::addmm_out(out, self, a, b, beta, alpha);
})
OP(aclnnInplaceAddmm,
   [](Tensor self, Tensor a, Tensor b, Scalar beta, Scalar alpha, int8_t) { self.addmm_(a, b, beta, alpha); })
OP(aclnnAddmv, [](Tensor self, Tensor matrix, Tensor vec, Scalar alpha, Scalar beta, Tensor out, int8_t) {
  at::addmv_out(out, self, matrix, vec, beta, alpha);
})
OP(aclnnAddr, [](Tensor self, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out) {
  at::addr_out(out, self, a, b, beta, alpha);
})
OP(aclnnBaddbmm, [](Tensor self, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  at::baddbmm_out(out, self, a, b, beta, alpha);
})
OP(aclnnAddbmm, [](Tensor self, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  at::addbmm_out(out, self, a, b, beta, alpha);
})

OP(aclnnSiluBackward, [](Tensor grad, Tensor self, Tensor out) { at::silu_backward_out(out, grad, self); })
OP(aclnnMishBackward, [](Tensor grad, Tensor self, Tensor out) { out.copy_(at::mish_backward(grad, self)); })
OP(aclnnSigmoidBackward, [](Tensor grad, Tensor output, Tensor out) { at::sigmoid_backward_out(out, grad, output); })
OP(aclnnTanhBackward, [](Tensor grad, Tensor output, Tensor out) { at::tanh_backward_out(out, grad, output); })
OP(aclnnThreshold,
   [](Tensor self, Scalar threshold, Scalar value, Tensor out) { at::threshold_out(out, self, threshold, value); })
OP(aclnnThresholdBackward, [](Tensor grad, Tensor self, Scalar threshold, Tensor out) {
  at::threshold_backward_out(out, grad, self, threshold);
})
OP(aclnnGelu, [](Tensor self, Tensor out) { at::gelu_out(out, self); })
OP(aclnnGeluBackward, [](Tensor grad, Tensor self, Tensor out) { at::gelu_backward_out(out, grad, self); })
OP(aclnnGeluV2, [](Tensor self, int64_t tanh, Tensor out) { at::gelu_out(out, self, tanh != 0 ? "tanh" : "none"); })
OP(aclnnGeluBackwardV2, [](Tensor grad, Tensor self, std::string approximate, Tensor out) {
  at::gelu_backward_out(out, grad, self, approximate);
})
OP(aclnnLeakyRelu, [](Tensor self, Scalar slope, Tensor out) { at::leaky_relu_out(out, self, slope); })
OP(aclnnInplaceLeakyRelu, [](Tensor self, Scalar slope) { at::leaky_relu_(self, slope); })
OP(aclnnLeakyReluBackward, [](Tensor grad, Tensor self, Scalar slope, bool is_result, Tensor out) {
  at::leaky_relu_backward_out(out, grad, self, slope, is_result);
})
OP(aclnnElu, [](Tensor self, Scalar alpha, Scalar scale, Scalar input_scale, Tensor out) {
  at::elu_out(out, self, alpha, scale, input_scale);
})
OP(aclnnEluBackward, [](Tensor grad, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self,
                        Tensor out) { at::elu_backward_out(out, grad, alpha, scale, input_scale, is_result, self); })
OP(aclnnSoftplus,
   [](Tensor self, Scalar beta, Scalar threshold, Tensor out) { at::softplus_out(out, self, beta, threshold); })
OP(aclnnSoftplusBackward, [](Tensor grad, Tensor self, Scalar beta, Scalar threshold, Tensor out) {
  at::softplus_backward_out(out, grad, self, beta, threshold);
})
OP(aclnnGlu, [](Tensor self, int64_t dim, Tensor out) { at::glu_out(out, self, dim); })
OP(aclnnGluBackward,
   [](Tensor grad, Tensor self, int64_t dim, Tensor out) { at::glu_backward_out(out, grad, self, dim); })
OP(aclnnLogSigmoidForward, [](Tensor self, Tensor out, Tensor) { at::log_sigmoid_out(out, self); })
OP(aclnnLogSigmoid, [](Tensor self, Tensor out) { at::log_sigmoid_out(out, self); })
OP(aclnnLogSigmoidBackward,
   [](Tensor grad, Tensor self, Tensor, Tensor out) { out.copy_(grad * at::sigmoid(at::neg(self))); })

OP(aclnnSoftmax,
   [](Tensor self, int64_t dim, Tensor out) { at::_softmax_out(out, self.to(out.scalar_type()), dim, false); })
OP(aclnnSoftmaxBackward, [](Tensor grad, Tensor output, int64_t dim, Tensor out) {
  out.copy_(at::_softmax_backward_data(grad, output, dim, output.scalar_type()));
})
OP(aclnnLogSoftmax,
   [](Tensor self, int64_t dim, Tensor out) { at::_log_softmax_out(out, self.to(out.scalar_type()), dim, false); })
OP(aclnnLogSoftmaxBackward, [](Tensor grad, Tensor output, int64_t dim, Tensor out) {
  out.copy_(at::_log_softmax_backward_data(grad, output, dim, output.scalar_type()));
})

OP(aclnnLayerNorm, [](Tensor input, Ints shape, Optional<Tensor> weight, Optional<Tensor> bias, double eps, Tensor out,
                      Optional<Tensor> mean, Optional<Tensor> rstd) {
  const auto [normed, found_mean, found_rstd] = at::native_layer_norm(input, shape, weight, bias, eps);
  out.copy_(normed);
  if (mean) mean->copy_(found_mean);
  if (rstd) rstd->copy_(found_rstd);
})
OP(aclnnLayerNormBackward,
   [](Tensor grad, Tensor input, Ints shape, Tensor mean, Tensor rstd, Optional<Tensor> weight, Optional<Tensor> bias,
      Bools mask, Optional<Tensor> grad_input, Optional<Tensor> grad_weight, Optional<Tensor> grad_bias) {
     const auto wanted = twin::MakeGradientMask(mask);
     twin::CopyMasked(wanted,
                      at::native_layer_norm_backward(grad, input, shape, mean.to(input.scalar_type()),
                                                     rstd.to(input.scalar_type()), weight, bias, wanted),
                      grad_input, grad_weight, grad_bias);
   })

OP(aclnnNLLLoss, [](Tensor self, Tensor target, Optional<Tensor> weight, int64_t reduction, int64_t ignore, Tensor out,
                    Tensor total_weight) {
  const auto [loss, total] = at::nll_loss_forward(self, target.to(at::kLong), weight, reduction, ignore);
  out.copy_(loss);
  total_weight.copy_(total);
})
OP(aclnnNLLLossBackward, [](Tensor grad, Tensor self, Tensor target, Optional<Tensor> weight, int64_t reduction,
                            int64_t ignore, Tensor total_weight, Tensor out) {
  out.copy_(at::nll_loss_backward(grad, self, target.to(at::kLong), weight, reduction, ignore, total_weight));
})
OP(aclnnMseLoss,
   [](Tensor self, Tensor target, int64_t reduction, Tensor out) { out.copy_(at::mse_loss(self, target, reduction)); })
OP(aclnnMseLossBackward, [](Tensor grad, Tensor self, Tensor target, int64_t reduction, Tensor out) {
  at::mse_loss_backward_out(out, grad, self, target, reduction);
})
OP(aclnnL1Loss,
   [](Tensor self, Tensor target, int64_t reduction, Tensor out) { out.copy_(at::l1_loss(self, target, reduction)); })
OP(aclnnSmoothL1Loss, [](Tensor self, Tensor target, int64_t reduction, float beta, Tensor out) {
  out.copy_(at::smooth_l1_loss(self, target, reduction, beta));
})
OP(aclnnSmoothL1LossBackward, [](Tensor grad, Tensor self, Tensor target, int64_t reduction, float beta, Tensor out) {
  at::smooth_l1_loss_backward_out(out, grad, self, target, reduction, beta);
})
OP(aclnnBinaryCrossEntropy, [](Tensor self, Tensor target, Optional<Tensor> weight, int64_t reduction, Tensor out) {
  out.copy_(at::binary_cross_entropy(self, target, weight, reduction));
})
OP(aclnnBinaryCrossEntropyBackward,
   [](Tensor grad, Tensor self, Tensor target, Optional<Tensor> weight, int64_t reduction, Tensor out) {
     at::binary_cross_entropy_backward_out(out, grad, self, target, weight, reduction);
   })
OP(aclnnBinaryCrossEntropyWithLogits,
   [](Tensor self, Tensor target, Optional<Tensor> weight, Optional<Tensor> positive, int64_t reduction, Tensor out) {
     out.copy_(at::binary_cross_entropy_with_logits(self, target, weight, positive, reduction));
   })
OP(aclnnKlDiv, [](Tensor self, Tensor target, int64_t reduction, bool log_target, Tensor out) {
  out.copy_(at::kl_div(self, target, reduction, log_target));
})

OP(aclnnEmbedding, [](Tensor weight, Tensor indices, Tensor out) {
  Tensor rows = out.view({-1, weight.size(-1)});
  at::index_select_out(rows, weight, 0, indices.reshape(-1));
})
OP(aclnnEmbeddingDenseBackward,
   [](Tensor grad, Tensor indices, uint64_t rows, uint64_t padding, bool by_frequency, Tensor out) {
     out.copy_(at::embedding_dense_backward(grad, indices.to(at::kLong), static_cast<int64_t>(rows),
                                            static_cast<int64_t>(padding), by_frequency));
   })

// One weight, or one for each channel, the dim after the first.
OP(aclnnPrelu,
   [](Tensor self, Tensor weight, Tensor out) { out.copy_(at::_prelu_kernel(self, OverChannelsOf(self, weight))); })
OP(aclnnPreluBackward, [](Tensor grad, Tensor self, Tensor weight, Tensor grad_self, Tensor grad_weight) {
  const Tensor wide = OverChannelsOf(self, weight);
  const auto [of_self, of_weight] = at::_prelu_kernel_backward(grad, self, wide);
  grad_self.copy_(of_self);
  grad_weight.copy_(of_weight.sum_to_size(wide.sizes()).view_as(grad_weight));
})

OP(aclnnCtcLoss, [](Tensor log_probs, Tensor targets, Ints input_lengths, Ints target_lengths, int64_t blank,
                    bool zero_infinity, Tensor loss, Tensor log_alpha) {
  const auto [of, alpha] =
      at::_ctc_loss(log_probs, targets.to(at::kLong), input_lengths, target_lengths, blank, zero_infinity);
  loss.copy_(of);
  log_alpha.fill_(-std::numeric_limits<double>::infinity());  // wider than needed: a multiple of eight
  log_alpha.narrow(-1, 0, alpha.size(-1)).copy_(alpha);
})
OP(aclnnCtcLossBackward, [](Tensor grad, Tensor log_probs, Tensor targets, Ints input_lengths, Ints target_lengths,
                            Tensor loss, Tensor log_alpha, int64_t blank, bool zero_infinity, Tensor out) {
  const int64_t longest = *std::max_element(target_lengths.begin(), target_lengths.end());
  out.copy_(at::_ctc_loss_backward(grad, log_probs, targets.to(at::kLong), input_lengths, target_lengths, loss,
                                   log_alpha.narrow(-1, 0, 2 * longest + 1).contiguous(), blank, zero_infinity));
})
