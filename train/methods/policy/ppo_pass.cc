#include "train/methods/policy/ppo_pass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/store_reader.h"
#include "parallel/objectives/policy_facts.h"
#include "stages/ppo_check.h"
#include "train/step/rank_sums.h"

namespace trireme {
namespace {

std::vector<Rollout> AllRollouts(const std::vector<PpoPass::Update>& updates) {
  std::vector<Rollout> all;
  for (const PpoPass::Update& update : updates) all.insert(all.end(), update.rollouts.begin(), update.rollouts.end());
  return all;
}

// Less what a completion without an end token loses.
std::vector<double> ScoresOf(const std::vector<Rollout>& rollouts, const std::vector<double>& rewards,
                             const RlConfig& rl) {
  std::vector<double> scores;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    const double reward = std::isnan(rewards[i]) ? 0 : rewards[i];
    scores.push_back(reward - (rollouts[i].truncated ? rl.missing_eos_penalty() : 0));
  }
  return scores;
}

double MeanScore(const std::vector<double>& scores) {
  double sum = 0;
  for (const double score : scores) sum += score;
  return sum / static_cast<double>(std::max<size_t>(scores.size(), 1));
}

}  // namespace

PpoPass::PpoPass(Session& policy, const std::optional<std::filesystem::path>& checkpoint)
    : policy_(policy),
      model_(PolicyHasValues(policy.config()) ? nullptr : std::make_unique<ValueModel>(policy, checkpoint)),
      kl_coefficient_(policy.config().rl().beta()) {
  if (!checkpoint) return;
  const StoreReader reader(*checkpoint);
  const checkpoint::Progress& progress = reader.manifest().progress();
  if (progress.has_kl_coefficient()) kl_coefficient_ = progress.kl_coefficient();
}

std::optional<double> PpoPass::kl_coefficient() const {
  return policy_.config().rl().kl_target() > 0 ? std::optional(kl_coefficient_) : std::nullopt;
}

std::vector<at::Tensor> PpoPass::ValuesOf(const std::vector<PassInput>& inputs) {
  if (model_) return model_->ValuesOf(inputs);
  std::vector<at::Tensor> values;
  for (const PassInput& input : inputs) values.push_back(input.facts.Get<PolicyFacts>().values);
  return values;
}

// Each number is on one of the ranks that speak.
void PpoPass::CollectTokens(const std::vector<Update>& updates, const std::vector<CompletionStates>& states,
                            PpoFacts& facts) {
  const bool speaks = policy_.Coordinate("tp") == 0;
  size_t first = 0;
  for (size_t u = 0; u < updates.size(); ++u) {
    const std::vector<at::Tensor> values = ValuesOf(updates[u].inputs);
    const size_t count = updates[u].rollouts.size();
    const auto rows = [&](TokenNumbers& table) { return std::span(table).subspan(first, count); };
    for (size_t i = 0; i < updates[u].inputs.size() && speaks; ++i) {
      const PolicyFacts& known = updates[u].inputs[i].facts.Get<PolicyFacts>();
      if (known.old.defined()) states[u].Collect(i, known.old, rows(facts.old));
      if (known.reference.defined()) states[u].Collect(i, known.reference, rows(facts.reference));
      if (values[i].defined()) states[u].Collect(i, values[i], rows(facts.values));
    }
    first += count;
  }
  SumOverRanks(facts.old, policy_);
  if (!facts.reference.empty()) SumOverRanks(facts.reference, policy_);
  SumOverRanks(facts.values, policy_);
}

void PpoPass::PutTargets(const std::vector<Update>& updates, const std::vector<CompletionStates>& states,
                         const PpoFacts& facts, const PpoTargets& targets) {
  const at::Device device = policy_.tensors().torch();
  size_t first = 0;
  for (size_t u = 0; u < updates.size(); ++u) {
    const size_t count = updates[u].rollouts.size();
    const auto rows = [&](const TokenNumbers& table) { return std::span(table).subspan(first, count); };
    TokenNumbers values(facts.values.begin() + static_cast<int64_t>(first),
                        facts.values.begin() + static_cast<int64_t>(first + count));
    for (size_t i = 0; i < count; ++i) {
      values[i].resize(rows(targets.returns)[i].size());
      Rollout& rollout = updates[u].rollouts[i];
      rollout.tokens = {.rewards = rows(targets.rewards)[i],
                        .values = values[i],
                        .returns = rows(targets.returns)[i],
                        .advantages = rows(targets.advantages)[i]};
    }
    for (size_t i = 0; i < updates[u].inputs.size(); ++i) {
      PassInput& input = updates[u].inputs[i];
      input.facts.Edit<PolicyFacts>().advantages =
          states[u].Spread(i, input.tokens.numel(), rows(targets.advantages)).to(device);
      input.facts.Edit<ValueFacts>() = {.positions = states[u].PositionsIn(i, rows(targets.returns)).to(device),
                                        .old = states[u].NumbersIn(i, values).to(device),
                                        .returns = states[u].NumbersIn(i, rows(targets.returns)).to(device)};
    }
    first += count;
  }
}

MetricValues PpoPass::Begin(const std::vector<Update>& updates, const std::vector<double>& scores) {
  const RlConfig& rl = policy_.config().rl();
  std::vector<CompletionStates> states;
  for (const Update& update : updates) states.emplace_back(update.inputs, update.rollouts);
  const std::vector<Rollout> rollouts = AllRollouts(updates);
  PpoFacts facts{.scores = ScoresOf(rollouts, scores, rl),
                 .old = ZerosFor(rollouts, 0),
                 .reference = rl.beta() > 0 ? ZerosFor(rollouts, 0) : TokenNumbers(),
                 .values = ZerosFor(rollouts, model_ ? 1 : 0)};
  CollectTokens(updates, states, facts);
  const double coefficient = kl_coefficient_;
  const PpoTargets targets = TargetsOf(facts, rl, coefficient);
  PutTargets(updates, states, facts, targets);
  kl_coefficient_ = NextKlCoefficient(coefficient, targets.kl, std::ssize(rollouts), rl);
  const double scored = MeanScore(facts.scores);
  return {{"objective/kl", targets.kl},
          {"objective/entropy", targets.entropy},
          {"objective/non_score_reward", -coefficient * targets.kl},
          {"objective/scores", scored},
          {"objective/rlhf_reward", scored - coefficient * targets.kl},
          {"kl_coef", coefficient}};
}

}  // namespace trireme
