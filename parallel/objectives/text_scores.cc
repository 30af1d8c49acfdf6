#include "parallel/objectives/text_scores.h"

#include <ATen/ATen.h>

#include <optional>

#include "core/base/error.h"
#include "parallel/objectives/pooled_texts.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// What makes numbers of a vector: the whole value head, or two rows of a language head that is split over ranks, each
// of which is on one of them.
class NumberHead {
 public:
  NumberHead(const HeadStates& head, std::vector<int64_t> tokens) : head_(head), tokens_(std::move(tokens)) {
    if (tokens_.empty()) {
      weight_ = head.weight.value.to(at::kFloat);
      return;
    }
    const int64_t hidden = head.weight.value.size(1);
    weight_ = at::zeros({std::ssize(tokens_), hidden}, head.weight.value.options().dtype(at::kFloat));
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (const auto row = RowOf(tokens_[i])) weight_[static_cast<int64_t>(i)].copy_(head.weight.value[*row]);
    }
    AllReduce(weight_, head.tensor);
  }

  const at::Tensor& weight() const { return weight_; }  // [numbers, hidden] fp32, the same on all ranks
  // by_number: [documents, numbers]; vectors: [documents, hidden].
  void AddGradient(const at::Tensor& by_number, const at::Tensor& vectors) const {
    // Each context rank has the same vectors: one of them is the whole sum.
    if (!head_.weight.trained() || head_.context.rank() != 0) return;
    const at::Tensor gradient = at::mm(by_number.t(), vectors);
    if (tokens_.empty()) {
      head_.weight.gradient_sum().add_(gradient);
      return;
    }
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (const auto row = RowOf(tokens_[i])) {
        head_.weight.gradient_sum()[*row].add_(gradient[static_cast<int64_t>(i)]);
      }
    }
  }

 private:
  // A token's row on this rank; nothing if another one has it.
  std::optional<int64_t> RowOf(int64_t token) const {
    const int64_t row = token - head_.columns.first;
    return row >= 0 && row < head_.columns.count ? std::optional(row) : std::nullopt;
  }

  const HeadStates& head_;
  const std::vector<int64_t> tokens_;
  at::Tensor weight_;
};

// Of two tokens' logits, the first above the second: [documents, 1].
at::Tensor Above(const at::Tensor& logits) { return logits.narrow(1, 0, 1) - logits.narrow(1, 1, 1); }

}  // namespace

std::vector<at::Tensor> TextScoreObjective::Run(const HeadStates& head, PassContext& pass) const {
  TRIREME_CHECK(pass.mtp_depths() == 0) << "scores of texts do not support multi-token prediction";
  const TextTotals& totals = pass.totals.facts.Get<TextTotals>();
  const std::vector<int64_t> tokens =
      of_tokens_ ? std::vector<int64_t>{totals.positive_token, totals.negative_token} : std::vector<int64_t>{};
  const NumberHead numbers(head, tokens);
  const PooledTexts texts(head.hidden.at(0), pooling_, pass.input, head.context);
  const at::Tensor raw = at::mm(texts.vectors(), numbers.weight().t());  // [documents, numbers]
  const double cap = of_tokens_ ? head.soft_cap : 0;
  const at::Tensor logits = cap > 0 ? at::tanh(raw / cap) * cap : raw;
  const at::Tensor scores = of_tokens_ ? Above(logits) : logits;
  if (pass.options.wants.sequence_scores) pass.output->sequence_scores = scores.flatten();

  const at::Tensor host = scores.to(at::kCPU).contiguous();
  const std::vector<double>& values = pass.input.facts.Get<TextFacts>().values;
  const ScoreGradient found = Differentiate({.scores = {host.data_ptr<float>(), static_cast<size_t>(host.numel())},
                                             .numbers = host.size(1),
                                             .values = values,
                                             .samples = pass.input.samples,
                                             .totals = pass.totals});
  // Each context rank has the same numbers: one speaks for all.
  pass.output->Add("loss", at::scalar_tensor(head.context.rank() == 0 ? found.loss : 0, scores.options()));
  if (!pass.options.differentiate) return {{}};
  if (pass.input.sequences == 0) return {at::zeros_like(head.hidden[0])};
  at::Tensor by_number = at::tensor(found.by_score, at::kDouble).to(at::kFloat).view(host.sizes()).to(scores.device());
  if (of_tokens_) by_number = at::cat({by_number, -by_number}, 1);
  if (cap > 0) by_number = by_number * (1 - (logits / cap).square());
  numbers.AddGradient(by_number, texts.vectors());
  // All tensor-parallel ranks compute the same: one of them is the whole sum.
  if (head.tensor.rank() != 0) return {at::zeros_like(head.hidden[0])};
  return {texts.ToTokens(at::mm(by_number, numbers.weight()))};
}

}  // namespace trireme
