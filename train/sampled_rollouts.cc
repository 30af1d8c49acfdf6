#include "train/sampled_rollouts.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "core/base/error.h"
#include "train/generation/prompts.h"

namespace trireme {
namespace {

constexpr int64_t kMostRows = 256;  // that a data-parallel rank decodes at once

double SecondsAfter(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

EngineOptions EngineOptionsOf(const Config& config, const Session& session) {
  const int64_t rows = int64_t{config.run().global_batch()} * config.rl().steps_per_generation();
  const int64_t replicas = session.plan().grids.dense.Size("dp");
  return {.max_rows = std::min((rows + replicas - 1) / replicas, kMostRows)};
}

}  // namespace

SampledRollouts::SampledRollouts(Session& session, std::shared_ptr<const PromptSet> prompts)
    : session_(session),
      config_(session.config()),
      prompts_(std::move(prompts)),
      ends_(EndTokens(config_.model().path(), prompts_->tokenizer())) {
  for (const std::string& name : config_.rl().rewards()) {
    names_.push_back(LogNameOf(name));
    if (session.job().rank() == 0) rewards_.push_back(OpenReward(name, config_));
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
  if (engine_) {
    engine_->Forget();  // the weights have changed
  } else {
    engine_.emplace(session_, EngineOptionsOf(config_, session_));
  }
  std::vector<Rollout> rollouts;
  std::map<int64_t, size_t> places;  // by row of the engine
  for (const int64_t index : prompts) {
    const PolicyPrompt& prompt = prompts_->at(index);
    std::optional<int64_t> first;
    for (int i = 0; i < rl.group(); ++i) {
      const auto number = static_cast<int64_t>(rollouts.size());
      const int64_t row = engine_->Add({.prompt = prompt.ids,
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
  while (!engine_->idle()) {
    for (const NewToken& token : engine_->Step()) {
      if (!Continue(rollouts[places.at(token.row)], token)) engine_->End(token.row);
    }
  }
  return rollouts;
}

// On rank 0; then the others are told.
void SampledRollouts::Judge(std::vector<Rollout>& rollouts, const std::vector<int64_t>& prompts) {
  std::vector<double> table(rollouts.size() * names_.size());
  if (session_.job().rank() == 0) {
    std::vector<Judged> judged;
    for (size_t i = 0; i < rollouts.size(); ++i) {
      judged.push_back({&prompts_->at(prompts[i / static_cast<size_t>(config_.rl().group())]), &rollouts[i]});
    }
    for (size_t r = 0; r < rewards_.size(); ++r) {
      const std::vector<double> found = rewards_[r]->Of(judged);
      std::copy(found.begin(), found.end(), table.begin() + static_cast<int64_t>(r * rollouts.size()));
    }
  }
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
