// Reward models: the scores of a value head at the last tokens of a chosen and a rejected answer, by the Bradley-Terry
// loss -log σ(chosen - rejected - margin), with a term that keeps scores around 0. Sums: `loss` and TRL's metrics.
#include <ATen/ATen.h>

#include <memory>

#include "core/base/error.h"
#include "parallel/objectives/answer_facts.h"
#include "parallel/objectives/objective.h"
#include "parallel/objectives/objective_options.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// The documents whose last tokens this context rank has.
struct LastTokens {
  at::Tensor documents, positions;  // [here] int64
  at::Tensor states;                // [here, hidden] fp32

  LastTokens(const at::Tensor& hidden, const PassInput& input) {
    TRIREME_CHECK(std::ssize(input.last_tokens) == input.sequences)
        << input.last_tokens.size() << " last tokens of " << input.sequences << " documents";
    std::vector<int64_t> documents_here, positions_here;
    for (size_t i = 0; i < input.last_tokens.size(); ++i) {
      if (input.last_tokens[i] < 0) continue;
      documents_here.push_back(static_cast<int64_t>(i));
      positions_here.push_back(input.last_tokens[i]);
    }
    documents = at::tensor(documents_here, at::kLong).to(hidden.device());
    positions = at::tensor(positions_here, at::kLong).to(hidden.device());
    if (any()) states = hidden.index_select(0, positions).to(at::kFloat);
  }
  bool any() const { return documents.numel() > 0; }
};

class RewardObjective : public Objective {
 public:
  explicit RewardObjective(double center) : center_(center) {}
  bool needs_scores() const override { return true; }
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override {
    return {"loss", "mean_reward", "accuracy", "margin"};
  }
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 private:
  // Adds the micro batch's sums; d loss / d score of each document.
  std::vector<double> Differentiate(const at::Tensor& scores, const PassInput& input, const BatchTotals& totals,
                                    NamedSums& sums) const;

  const double center_;
};

// Of all documents of the micro batch, over the context ranks.
at::Tensor SequenceScores(const LastTokens& last, const at::Tensor& weight, const HeadStates& head,
                          const PassInput& input) {
  const at::Tensor scores = at::zeros({input.sequences}, weight.options());
  if (input.sequences == 0) return scores;  // on every context rank
  if (last.any()) scores.index_copy_(0, last.documents, at::mm(last.states, weight.t()).squeeze(1));
  AllReduce(scores, head.context);
  return scores;
}

std::vector<double> RewardObjective::Differentiate(const at::Tensor& scores, const PassInput& input,
                                                   const BatchTotals& totals, NamedSums& sums) const {
  const at::Tensor host = scores.to(at::kCPU).contiguous();
  const float* score = host.data_ptr<float>();
  const std::vector<double>& values = input.facts.Get<AnswerFacts>().values;
  const double share = totals.per_sample();
  std::vector<double> gradient(static_cast<size_t>(host.numel()), 0.0);
  TRIREME_CHECK(gradient.size() % 2 == 0) << gradient.size() << " answers make no pairs";
  for (const std::string& name : SumNames(0)) sums[name] = 0;
  for (size_t i = 0; i < gradient.size(); i += 2) {
    TRIREME_CHECK(input.samples[i] == input.samples[i + 1]) << "a pair was parted";
    const double chosen = score[i], rejected = score[i + 1], both = chosen + rejected;
    const double lead = chosen - rejected - values[i];
    sums["loss"] += share * (-LogSigmoid(lead) + center_ * both * both);
    gradient[i] = share * (-Sigmoid(-lead) + 2 * center_ * both);
    gradient[i + 1] = share * (Sigmoid(-lead) + 2 * center_ * both);
    sums["mean_reward"] += share * both / 2;
    sums["accuracy"] += chosen > rejected ? share : 0;
    sums["margin"] += share * (chosen - rejected);
  }
  return gradient;
}

std::vector<at::Tensor> RewardObjective::Run(const HeadStates& head, PassContext& pass) const {
  TRIREME_CHECK(pass.mtp_depths() == 0) << "a value head does not support multi-token prediction";
  const at::Tensor& hidden = head.hidden.at(0);
  const at::Tensor weight = head.weight.value.to(at::kFloat);  // [1, hidden]
  const LastTokens last(hidden, pass.input);
  const at::Tensor scores = SequenceScores(last, weight, head, pass.input);
  PassOutput& output = *pass.output;
  if (pass.options.wants.scores) output.scores = at::mm(hidden.to(at::kFloat), weight.t()).squeeze(1);
  if (pass.options.wants.sequence_scores) output.sequence_scores = scores;
  if (pass.input.facts.Get<AnswerFacts>().values.empty() && pass.input.sequences > 0)
    return {{}};  // conversations to be scored
  NamedSums sums;
  const std::vector<double> by_score = Differentiate(scores, pass.input, pass.totals, sums);
  // Each context rank has the same numbers: one speaks for all.
  for (const auto& [name, value] : sums) {
    if (head.context.rank() == 0) output.Add(name, at::scalar_tensor(value, weight.options()));
  }
  if (!pass.options.differentiate) return {{}};
  const at::Tensor gradient = at::zeros_like(hidden);
  if (!last.any()) return {gradient};
  const at::Tensor factors = at::tensor(by_score, at::kDouble)
                                 .to(at::kFloat)
                                 .to(hidden.device())
                                 .index_select(0, last.documents)
                                 .unsqueeze(1);  // [here, 1]
  if (head.weight.trained()) head.weight.gradient_sum().add_(at::mm(factors.t(), last.states));
  // All tensor-parallel ranks compute the same: one of them is the whole sum.
  if (head.tensor.rank() == 0) gradient.index_copy_(0, last.positions, (factors * weight).to(hidden.scalar_type()));
  return {gradient};
}

}  // namespace

std::unique_ptr<Objective> MakeRewardModel(const ObjectiveOptions& options) {
  return std::make_unique<RewardObjective>(options.answers.center_rewards);
}

}  // namespace trireme
