#include "train/rollouts/completion_sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "generation/text/prompts.h"
#include "stages/policy_check.h"
#include "train/plan/sampling_plan.h"

namespace trireme {

CompletionDraw TrainingDraw(const Config& config) {
  const RlConfig& rl = config.rl();
  return {.sampling = {.temperature = rl.temperature(),
                       .top_k = rl.top_k(),
                       .top_p = rl.top_p(),
                       .seed = static_cast<uint64_t>(config.run().seed())},
          .group = GroupOf(config)};
}

CompletionDraw EvaluationDraw(const Config& config) {
  const EvalConfig& eval = config.eval();
  return {.sampling = {.temperature = eval.temperature(),
                       .top_k = eval.top_k(),
                       .top_p = eval.top_p(),
                       .min_p = eval.min_p(),
                       .repetition_penalty = eval.repetition_penalty(),
                       .seed = RandomStream(static_cast<uint64_t>(config.run().seed()), "evaluation").Bits(0)},
          .group = eval.completions()};
}

CompletionSampler::CompletionSampler(const Config& config, std::shared_ptr<const PromptSet> prompts, Job& job,
                                     CompletionDraw draw)
    : config_(config),
      prompts_(std::move(prompts)),
      draw_(std::move(draw)),
      ends_(EndTokens(config_.model().path(), prompts_->tokenizer())) {
  if (!config_.rl().environment().empty()) turns_ = std::make_unique<ConversationTurns>(config_, *prompts_, job);
}

EngineRow CompletionSampler::RowOf(const Rollout& rollout, int64_t stream, int turn) const {
  std::vector<int64_t> ids = rollout.prompt_ids;
  ids.insert(ids.end(), rollout.completion_ids.begin(), rollout.completion_ids.end());
  Sampling sampling = draw_.sampling;
  sampling.seed += static_cast<uint64_t>(turn) << 32;
  const double temperature = sampling.temperature > 0 ? sampling.temperature : 1;
  PromptImages images = prompts_->ImagesFor(rollout.images);
  images.within = std::ssize(rollout.prompt_ids);  // what the model writes is text
  return {.prompt = std::move(ids),
          .sampling = std::move(sampling),
          .stream = stream,
          .top = 0,
          .log_prob_temperature = temperature,
          .images = std::move(images)};
}

bool CompletionSampler::Continue(Rollout& rollout, const NewToken& token) const {
  rollout.completion_ids.push_back(token.token);
  rollout.log_probs.push_back(std::min(token.log_probs.at(0).log_prob, 0.0F));
  if (ends_.contains(token.token)) return false;
  rollout.truncated = std::ssize(rollout.completion_ids) == config_.rl().max_new_tokens();
  return !rollout.truncated;
}

void CompletionSampler::Decode(std::vector<Rollout>& rollouts) const {
  if (prompts_->tokenizer() == nullptr) return;
  for (Rollout& rollout : rollouts) {
    const std::vector<int32_t> ids(rollout.completion_ids.begin(), rollout.completion_ids.end());
    rollout.completion = prompts_->tokenizer()->Decode(ids, /*skip_special=*/true);
  }
}

void CompletionSampler::DrawTurn(Engine& engine, std::vector<Rollout>& rollouts, const std::vector<size_t>& open,
                                 int64_t stream, int turn) const {
  std::map<int64_t, size_t> places;  // by row of the engine
  int64_t leader = 0;                // the first of a group, whose prompt the others find computed
  for (const size_t i : open) {
    const bool leads = static_cast<int64_t>(i) % draw_.group == 0;
    EngineRow row = RowOf(rollouts[i], stream + static_cast<int64_t>(i), turn);
    if (turn == 0 && !leads) row.after = leader;
    const int64_t added = engine.Add(std::move(row));
    if (leads) leader = added;
    places[added] = i;
  }
  while (!engine.idle()) {
    for (const NewToken& token : engine.Step()) {
      if (!Continue(rollouts[places.at(token.row)], token)) engine.End(token.row);
    }
  }
}

std::vector<Rollout> CompletionSampler::Draw(Session& model, int64_t step, const std::vector<int64_t>& prompts,
                                             int64_t first) {
  const auto start = Clock::now();
  const SamplingPlan plan = PlanSampling(config_, model.graph(), model.plan().grids);
  // Its keys and values make room for activations when it goes. They are made once: a cache that grows takes more.
  Engine engine(model, {.max_rows = plan.rows, .max_total_tokens = plan.cached_tokens});
  std::vector<Rollout> rollouts;
  std::vector<const PolicyPrompt*> asked;  // by rollout
  for (const int64_t index : prompts) {
    const PolicyPrompt& prompt = prompts_->at(index);
    asked.insert(asked.end(), static_cast<size_t>(draw_.group), &prompt);
    rollouts.insert(rollouts.end(), static_cast<size_t>(draw_.group),
                    {.prompt = prompt.text, .prompt_ids = prompt.ids, .images = prompt.images});
  }
  if (turns_) turns_->Begin(asked);
  std::vector<size_t> open(rollouts.size());
  std::iota(open.begin(), open.end(), size_t{0});
  for (int turn = 0; !open.empty(); ++turn) {
    DrawTurn(engine, rollouts, open, step * (int64_t{1} << 24) + first, turn);
    open = turns_ ? turns_->Continue(rollouts, open) : std::vector<size_t>();
  }
  Decode(rollouts);
  const SchedulerCounts counts = engine.counts();
  metrics_["sampling/prefix_hit_share"] =
      static_cast<double>(counts.prefix_hits) / static_cast<double>(std::max<int64_t>(counts.prefix_queries, 1));
  metrics_["sampling_seconds"] = SecondsSince(start);
  return rollouts;
}

}  // namespace trireme
