#include "train/sampled_rollouts.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "core/base/error.h"
#include "train/generation/prompts.h"
#include "train/sampling_plan.h"

namespace trireme {
namespace {

double SecondsAfter(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

SampledRollouts::SampledRollouts(Session& session, std::shared_ptr<const PromptSet> prompts)
    : session_(session),
      config_(session.config()),
      prompts_(std::move(prompts)),
      ends_(EndTokens(config_.model().path(), prompts_->tokenizer())) {
  for (const std::string& name : config_.rl().rewards()) {
    names_.push_back(LogNameOf(name));
    const std::optional<std::string> directory = RewardModelIn(name);
    models_.push_back(directory ? std::make_unique<RewardModel>(session, *directory) : nullptr);
    const bool asks = !directory && session.job().rank() == 0;
    rewards_.push_back(asks ? OpenReward(name, config_) : nullptr);
  }
}

bool SampledRollouts::Continue(Rollout& rollout, const NewToken& token) const {
  rollout.completion_ids.push_back(token.token);
  rollout.log_probs.push_back(std::min(token.log_probs.at(0).log_prob, 0.0F));
  if (ends_.contains(token.token)) return false;
  rollout.truncated = std::ssize(rollout.completion_ids) == config_.rl().max_new_tokens();
  return !rollout.truncated;
}

std::vector<Rollout> SampledRollouts::Draw(int64_t step, const std::vector<int64_t>& prompts) {
  const RlConfig& rl = config_.rl();
  const SamplingPlan plan = PlanSampling(config_, session_.graph(), session_.plan().grids);
  Engine engine(session_, {.max_rows = plan.rows});  // its keys and values make room for activations when it goes
  std::vector<Rollout> rollouts;
  std::map<int64_t, size_t> places;  // by row of the engine
  for (const int64_t index : prompts) {
    const PolicyPrompt& prompt = prompts_->at(index);
    std::optional<int64_t> first;
    for (int i = 0; i < rl.group(); ++i) {
      const auto number = static_cast<int64_t>(rollouts.size());
      const int64_t row = engine.Add({.prompt = prompt.ids,
                                        .sampling = {.temperature = rl.temperature(),
                                                     .top_k = rl.top_k(),
                                                     .top_p = rl.top_p(),
                                                     .seed = static_cast<uint64_t>(config_.run().seed())},
                                        .stream = step * (int64_t{1} << 24) + number,
                                        .top = 0,
                                        .log_prob_temperature = rl.temperature(),
                                        .after = first});
      if (!first) first = row;
      places[row] = rollouts.size();
      rollouts.push_back({.prompt = prompt.text, .prompt_ids = prompt.ids});
    }
  }
  while (!engine.idle()) {
    for (const NewToken& token : engine.Step()) {
      if (!Continue(rollouts[places.at(token.row)], token)) engine.End(token.row);
    }
  }
  const SchedulerCounts counts = engine.counts();
  metrics_["sampling/prefix_hit_share"] =
      static_cast<double>(counts.prefix_hits) / static_cast<double>(std::max<int64_t>(counts.prefix_queries, 1));
  return rollouts;
}

// Models by all ranks, the rest by rank 0, which tells the others.
void SampledRollouts::Judge(std::vector<Rollout>& rollouts, const std::vector<int64_t>& prompts) {
  std::vector<double> table(rollouts.size() * names_.size());
  std::vector<Judged> judged;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    judged.push_back({&prompts_->at(prompts[i / static_cast<size_t>(config_.rl().group())]), &rollouts[i]});
  }
  double failures = 0;
  for (size_t r = 0; r < names_.size(); ++r) {
    if (!models_[r] && !rewards_[r]) continue;
    const std::vector<double> found = models_[r] ? models_[r]->Of(judged) : rewards_[r]->Of(judged);
    std::copy(found.begin(), found.end(), table.begin() + static_cast<int64_t>(r * rollouts.size()));
    if (rewards_[r]) failures += static_cast<double>(rewards_[r]->failures());
  }
  if (failures > 0) metrics_["reward_failures"] = failures;
  session_.job().BroadcastBytes(table.data(), table.size() * sizeof(double));
  for (size_t r = 0; r < names_.size(); ++r) {
    for (size_t i = 0; i < rollouts.size(); ++i) rollouts[i].rewards[names_[r]] = table[r * rollouts.size() + i];
  }
}

std::vector<Rollout> SampledRollouts::Take(int64_t step, const std::vector<int64_t>& prompts) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Rollout> rollouts = Draw(step, prompts);
  metrics_["sampling_seconds"] = SecondsAfter(start);
  const Tokenizer* tokenizer = prompts_->tokenizer();
  for (Rollout& rollout : rollouts) {
    if (tokenizer == nullptr) break;
    const std::vector<int32_t> ids(rollout.completion_ids.begin(), rollout.completion_ids.end());
    rollout.completion = tokenizer->Decode(ids, /*skip_special=*/true);
  }
  const auto drawn = std::chrono::steady_clock::now();
  Judge(rollouts, prompts);
  metrics_["reward_seconds"] = SecondsAfter(drawn);
  return rollouts;
}

}  // namespace trireme
