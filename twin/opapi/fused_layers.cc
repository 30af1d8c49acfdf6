// Fused layers that programs call by torch_npu's own names: GeGLU, group norm with SiLU, Gemma's RMS norm, rotary
// embedding of queries and keys in place, cross entropy with label smoothing, masked softmax, top-k and top-p of
// logits, feed-forward layers. The backward stands beside the forward; what a loss can do besides (zloss) and quantised
// layers are refused by name, not ignored.
#include <ATen/ATen.h>

#include <limits>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

const char* Approximation(int64_t approximate) { return approximate == 1 ? "tanh" : "none"; }

// The half that is activated, and the one that it gates.
struct Halves {
  Tensor active, gated;
  Halves(const Tensor& x, int64_t dim, bool left) {
    const auto halves = x.chunk(2, dim);
    active = halves[left ? 0 : 1], gated = halves[left ? 1 : 0];
  }
};

Tensor SwapHalves(const Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return at::cat({-halves[1], halves[0]}, -1);
}
Tensor SwapPairs(const Tensor& x) {
  const Tensor pairs = x.unflatten(-1, {-1, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

// In place; cos and sin have one head and the layout of query and key.
void RotateInPlace(const Tensor& x, const Tensor& cos, const Tensor& sin, const std::string& mode) {
  TORCH_CHECK(mode == "half" || mode == "interleave", "rotary mode '", mode,
              "' is not supported by the CANN twin; half and interleave are");
  const Tensor wide = x.to(at::kFloat);
  x.copy_(wide * cos + (mode == "half" ? SwapHalves(wide) : SwapPairs(wide)) * sin);
}

struct Loss {
  Optional<Tensor> weight;
  std::string reduction;
  int64_t ignored;
  double smoothing;

  Loss(Optional<Tensor> weights, std::string reduced, int64_t ignore_index, double label_smoothing, double zloss)
      : weight(std::move(weights)), reduction(std::move(reduced)), ignored(ignore_index), smoothing(label_smoothing) {
    TORCH_CHECK(zloss == 0, "zloss is not supported by the CANN twin");
  }
  // One of at::Reduction, which numbers none 0, mean 1 and sum 2.
  int64_t Reduction() const { return reduction == "mean" ? 1 : reduction == "sum" ? 2 : 0; }
  Tensor Of(const Tensor& log_prob, const Tensor& target) const {
    // The softmax of a log-softmax is the softmax.
    return at::cross_entropy_loss(log_prob, target.to(at::kLong), Wide(), Reduction(), ignored, smoothing);
  }
  // Of the loss with respect to log_prob: of the target's, (1 - smoothing) of its weight; of all, smoothing / classes.
  Tensor GradientOf(const Tensor& log_prob, const Tensor& target, const Tensor& grad) const {
    const int64_t classes = log_prob.size(-1);
    const Tensor counted = target.ne(ignored);
    const Tensor weights = weight ? weight->to(at::kFloat) : at::ones({classes});
    const Tensor label = target.masked_fill(counted.logical_not(), 0);
    const Tensor of_label = weights.index_select(0, label) * counted;
    const Tensor level = reduction == "mean" ? grad / of_label.sum() : grad;
    Tensor result = (counted.unsqueeze(-1) * weights * (-smoothing / static_cast<double>(classes))).contiguous();
    result.scatter_add_(-1, label.unsqueeze(-1), (of_label * (smoothing - 1)).unsqueeze(-1));
    return result * level.reshape({-1, 1});
  }
  std::optional<Tensor> Wide() const { return weight ? std::optional(weight->to(at::kFloat)) : std::nullopt; }
};

struct FeedForward {
  Tensor first, second;  // [k, n], or one for each expert
  Optional<Tensor> first_bias, second_bias;
  std::string activation;

  FeedForward OfExpert(int64_t expert) const {
    const auto of = [&](const Optional<Tensor>& bias) { return bias ? Optional<Tensor>((*bias)[expert]) : bias; };
    return {first[expert], second[expert], of(first_bias), of(second_bias), activation};
  }
  Tensor Of(const Tensor& x) const {
    const auto linear = [](const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias) {
      const Tensor product = at::matmul(x, weight.to(at::kFloat));
      return bias ? product + bias->to(at::kFloat) : product;
    };
    return linear(Active(linear(x.to(at::kFloat), first, first_bias)), second, second_bias);
  }
  // Of swiglu the first half of the columns is active, as in npu_swiglu. Which half it is of geglu and reglu is not
  // documented: they are refused.
  Tensor Active(const Tensor& x) const {
    if (activation == "relu") return at::relu(x);
    if (activation == "gelu") return at::gelu(x);
    if (activation == "silu") return at::silu(x);
    if (activation == "fastgelu") return x * (x * 1.702).sigmoid();
    if (activation == "swiglu") {
      const auto halves = x.chunk(2, -1);
      return at::silu(halves[0]) * halves[1];
    }
    TORCH_CHECK(false, "activation '", activation,
                "' is not supported by the CANN twin; relu, gelu, silu, fastgelu and swiglu are");
  }
};

}  // namespace

OP(aclnnGeGluV3, [](Tensor x, int64_t dim, int64_t approximate, bool left, Tensor out, Tensor gelu) {
  const Halves halves(x, dim, left);
  gelu.copy_(at::gelu(halves.active, Approximation(approximate)));
  out.copy_(halves.gated * gelu);
})
OP(aclnnGeGluV3Backward,
   [](Tensor grad, Tensor x, Tensor gelu, int64_t dim, int64_t approximate, bool left, Tensor grad_x) {
     const Halves halves(x, dim, left), into(grad_x, dim, left);
     into.active.copy_(at::gelu_backward(grad * halves.gated, halves.active, Approximation(approximate)));
     into.gated.copy_(grad * gelu);
   })

OP(aclnnGroupNormSilu, [](Tensor x, Optional<Tensor> weight, Optional<Tensor> bias, int64_t groups, double eps,
                          Tensor out, Tensor mean, Tensor rstd) {
  const Tensor wide = x.to(at::kFloat).reshape({x.size(0), groups, -1});
  const Tensor middle = wide.mean(-1, true);
  const Tensor scale = at::rsqrt(wide.var(-1, /*unbiased=*/false, true) + eps);
  Tensor normed = ((wide - middle) * scale).view(x.sizes());
  Ints channels(x.dim(), 1);
  channels[1] = x.size(1);
  if (weight) normed = normed * weight->view(channels);
  if (bias) normed = normed + bias->view(channels);
  out.copy_(at::silu(normed));
  mean.copy_(middle.squeeze(-1));
  rstd.copy_(scale.squeeze(-1));
})

OP(aclnnGemmaRmsNorm, [](Tensor x, Tensor gamma, double eps, Tensor out, Tensor rstd) {
  Ints normed;
  for (int64_t dim = x.dim() - gamma.dim(); dim < x.dim(); ++dim) normed.push_back(dim);
  const Tensor wide = x.to(at::kFloat);
  const Tensor scale = at::rsqrt(wide.square().mean(normed, true) + eps);
  out.copy_(wide * scale * (gamma.to(at::kFloat) + 1));
  rstd.copy_(scale.view_as(rstd));
})

OP(aclnnApplyRotaryPosEmb, [](Tensor query, Tensor key, Tensor cos, Tensor sin, int64_t) {
  RotateInPlace(query, cos, sin, "half");
  RotateInPlace(key, cos, sin, "half");
})
OP(aclnnApplyRotaryPosEmbV2, [](Tensor query, Tensor key, Tensor cos, Tensor sin, int64_t, std::string mode) {
  RotateInPlace(query, cos, sin, mode);
  RotateInPlace(key, cos, sin, mode);
})
// Pairs of neighbours become two halves first.
OP(aclnnInterleaveRope, [](Tensor x, Tensor cos, Tensor sin, Tensor out) {
  const Tensor halves = x.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2).to(at::kFloat);
  out.copy_(halves * cos + SwapHalves(halves) * sin);
})

OP(aclnnCrossEntropyLoss,
   [](Tensor input, Tensor target, Optional<Tensor> weight, std::string reduction, int64_t ignored, double smoothing,
      double zloss, bool wants_zloss, Tensor loss, Tensor log_prob, Optional<Tensor>, Optional<Tensor>) {
     const Loss of(std::move(weight), reduction, ignored, smoothing, wants_zloss ? 1 : zloss);
     log_prob.copy_(at::log_softmax(input.to(at::kFloat), -1));
     loss.copy_(of.Of(at::log_softmax(input.to(at::kFloat), -1), target).view_as(loss));
   })
OP(aclnnCrossEntropyLossGrad,
   [](Tensor grad, Tensor log_prob, Tensor target, Optional<Tensor> weight, Optional<Tensor>, Optional<Tensor>,
      std::string reduction, int64_t ignored, double smoothing, double zloss, Tensor grad_x) {
     const Loss of(std::move(weight), reduction, ignored, smoothing, zloss);
     const Tensor of_log_prob = of.GradientOf(log_prob.to(at::kFloat), target.to(at::kLong), grad.to(at::kFloat));
     grad_x.copy_(of_log_prob - log_prob.to(at::kFloat).exp() * of_log_prob.sum(-1, true));
   })

// self[indices[…]] = updates, where an index has as many numbers as the last dim of `indices`.
OP(aclnnScatterNdUpdate, [](Tensor self, Tensor indices, Tensor updates) {
  c10::List<std::optional<Tensor>> at_each;
  for (const Tensor& along : indices.to(at::kLong).unbind(-1)) at_each.push_back(along);
  self.index_put_(at_each, updates);
})

// Hidden scores are -10000, not -inf: a row with nothing to see is uniform.
OP(aclnnScaledMaskedSoftmax, [](Tensor x, Tensor mask, double scale, bool causal, Tensor out) {
  const Tensor hidden = causal ? at::ones({x.size(-2), x.size(-1)}, at::kBool).triu(1) : mask.to(at::kBool);
  out.copy_((x.to(at::kFloat) * scale).masked_fill(hidden, -10000).softmax(-1));
})

// The logits that sampling may choose; -inf for the others. Ties at the k-th largest all stay.
OP(aclnnApplyTopKTopP, [](Tensor logits, Optional<Tensor> p, Optional<Tensor> k, Tensor out) {
  auto [sorted, order] = at::sort(logits.to(at::kFloat), /*stable=*/true, -1, /*descending=*/false);
  const double hidden = -std::numeric_limits<double>::infinity();
  if (k) {
    const Tensor last = (sorted.size(-1) - k->to(at::kLong)).unsqueeze(-1);
    sorted = sorted.masked_fill(sorted < sorted.gather(-1, last), hidden);
  }
  if (p) {
    Tensor small = sorted.softmax(-1).cumsum(-1) <= 1 - p->to(at::kFloat).unsqueeze(-1);
    small.select(-1, -1).fill_(false);
    sorted = sorted.masked_fill(small, hidden);
  }
  out.copy_(sorted.scatter(-1, order, sorted));
})

// Two linear layers with an activation between them, of all rows or of each expert's own.
OP(aclnnFFNV2,
   [](Tensor x, Tensor first, Tensor second, Optional<Ints> expert_rows, Optional<Tensor> first_bias,
      Optional<Tensor> second_bias, Optional<Tensor> scale, Optional<Tensor> offset, Optional<Tensor> first_scale,
      Optional<Tensor> second_scale, Optional<Tensor> first_antiquant, Optional<Tensor> second_antiquant,
      Optional<Tensor>, Optional<Tensor>, std::string activation, int64_t, bool cumulative, Tensor out) {
     TORCH_CHECK(!scale && !offset && !first_scale && !second_scale && !first_antiquant && !second_antiquant,
                 "a quantised npu_ffn is not supported by the CANN twin");
     const FeedForward layer{first, second, first_bias, second_bias, activation};
     const Tensor rows = x.flatten(0, -2), into = out.view({-1, out.size(-1)});
     if (!expert_rows || expert_rows->empty()) {
       into.copy_(layer.Of(rows));
       return;
     }
     int64_t begin = 0;
     for (size_t expert = 0; expert < expert_rows->size(); ++expert) {
       const int64_t end = cumulative ? expert_rows->at(expert) : begin + expert_rows->at(expert);
       into.slice(0, begin, end).copy_(layer.OfExpert(static_cast<int64_t>(expert)).Of(rows.slice(0, begin, end)));
       begin = end;
     }
     TORCH_CHECK(begin == rows.size(0), "the experts have ", begin, " rows together; there are ", rows.size(0));
   })
