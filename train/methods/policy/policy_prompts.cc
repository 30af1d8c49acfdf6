#include "train/methods/policy/policy_prompts.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "generation/text/prompts.h"
#include "stages/evaluation_check.h"
#include "stages/other_models.h"
#include "stages/policy_check.h"
#include "stages/stage.h"
#include "train/rollouts/completion_endpoint.h"
#include "train/rollouts/completion_scores.h"
#include "train/rollouts/environment.h"
#include "train/rollouts/followed_rollouts.h"
#include "train/rollouts/replay.h"
#include "train/rollouts/rewards.h"

namespace trireme {

namespace {

void RefuseImages(const PromptSet& prompts, const std::string& key, const char* why) {
  for (int64_t i = 0; i < prompts.size(); ++i) {
    if (!prompts.at(i).images) continue;
    throw InputError(key, ": prompt ", i + 1, " of ", prompts.keys().files, " has ", prompts.at(i).images->size(),
                     " images, and ", why, "; leave the key out, or the images");
  }
}

void CheckCanBeRewarded(const Config& config, const PromptSet& prompts, bool reports) {
  if (config.rl().rewards().empty()) {
    throw InputError(
        "rl.rewards is empty; wanted python:FILE.py:FUNCTION, program:COMMAND, http://HOST:PORT/PATH, model:DIR or "
        "some of ",
        Join(BuiltInRewards()));
  }
  if (!config.rl().environment().empty()) {
    RefuseImages(prompts, "rl.environment", "turns of an environment are text");
    Environment(config, prompts);
  }
  for (const std::string& name : config.rl().rewards()) {
    if (RewardModelIn(name)) {
      RefuseImages(prompts, "rl.rewards: " + name, "reward models read text");
      continue;
    }
    const std::unique_ptr<Reward> reward = OpenReward(name, config);
    reward->CheckPrompts(prompts);
    if (reports) reward->CheckCode(prompts);
  }
}

Prompts OpenReplay(const Config& config, int64_t vocabulary) {
  if (!config.rl().sampler().weights().empty()) {
    throw InputError(
        "rl.sampler.weights has no part in this run: rl.rollouts ", config.rl().rollouts(),
        " is a file, whose completions are there already; leave it out, or name a directory that a sampler fills");
  }
  const auto replay = std::make_shared<Replay>(config, ReadingFor(config, vocabulary));
  return {.data = {.train = replay->Prompts(), .valid = nullptr, .samples = replay->groups()},
          .replay = replay,
          .sampled = {}};
}

// A row per prompt of a sampling, without tokens: what they are is known when they come.
Prompts OpenFollowed(const Config& config) {
  const std::string& directory = config.rl().rollouts();
  if (config.run().steps() == 0) {
    throw InputError("run.steps = 0: rl.rollouts ", directory,
                     " is a directory that another sampler fills, without epochs; ", "set the number of steps");
  }
  RefuseOtherNames(directory);
  std::vector<Row> rows(static_cast<size_t>(PromptsPerSampling(config)));
  const int64_t size = std::ssize(rows);
  return {.data = {.train = std::make_shared<RowList>(std::move(rows)), .valid = nullptr, .samples = size},
          .replay = {},
          .sampled = {}};
}

Prompts OpenSampled(const Config& config, const DataPlace& place) {
  const bool outside = !config.rl().sampler().endpoint().empty();
  if (config.parallel().context() > 1 && !outside && !OtherModelOf(config, ModelRole::kSampler)) {
    throw InputError("parallel.context = ", config.parallel().context(), ": no completions are sampled under context ",
                     "parallelism; write 1, or set another layout for sampling (rl.sampling), or give completions by "
                     "rl.rollouts or rl.sampler.endpoint");
  }
  const auto sampled = std::make_shared<PromptSet>(config, place.vocabulary);
  CheckCanBeRewarded(config, *sampled, place.reports);
  if (outside) RefuseImages(*sampled, "rl.sampler.endpoint", "requests to a sampler are tokens of text");
  if (outside && place.reports && sampled->size() > 0) {
    CompletionEndpoint(config,
                       {.vocabulary = place.vocabulary, .ends = EndTokens(config.model().path(), sampled->tokenizer())})
        .Check(sampled->at(0).ids);
  }
  return {.data = {.train = sampled->AsRows(), .valid = nullptr, .samples = sampled->size()},
          .replay = {},
          .sampled = sampled};
}

}  // namespace

bool HasPrompts(const Config& config) { return !config.rl().rollouts().empty() || !config.data().train().empty(); }

void CheckHasPrompts(const Config& config) {
  if (HasPrompts(config)) return;
  throw InputError("data.train is empty; name files with prompts, or in rl.rollouts one with completions");
}

void CheckCount(const Config& config, const Prompts& prompts) {
  const int64_t found = prompts.data.train->size(), wanted = PromptsPerSampling(config);
  if (found >= wanted) return;
  throw InputError(config.rl().rollouts().empty() ? "data.train" : config.rl().rollouts(), ": has ", found,
                   " prompts; a sampling takes ", wanted,
                   " (run.global_batch x rl.steps_per_generation / rl.group). Lower run.global_batch");
}

Prompts OpenPrompts(const Config& config, const DataPlace& place) {
  CheckHasPrompts(config);
  const std::string& reload = config.rl().sampler().reload();
  if (reload.starts_with("http")) ParseHttpTarget(reload, "rl.sampler.reload");
  Prompts prompts = FollowsRollouts(config)          ? OpenFollowed(config)
                    : config.rl().rollouts().empty() ? OpenSampled(config, place)
                                                     : OpenReplay(config, place.vocabulary);
  CheckCount(config, prompts);
  OpenValidPrompts(config, place, prompts);
  return prompts;
}

void OpenValidPrompts(const Config& config, const DataPlace& place, Prompts& prompts) {
  if (!Evaluates(config)) {
    if (!config.data().valid().empty() && place.reports) {
      TRIREME_LOG(WARNING) << "the validation data is not used; set eval.every";
    }
    return;
  }
  const Config sampling = EvaluationSampling(config);
  const char* limit = config.eval().max_new_tokens() > 0 ? "eval.max_new_tokens" : "rl.max_new_tokens";
  prompts.valid = std::make_shared<PromptSet>(
      sampling, place.vocabulary, PromptKeys{.files = "data.valid", .limit = limit}, config.eval().records());
  if (prompts.valid->size() == 0) throw InputError("data.valid: has no prompts to evaluate on");
  CheckCanBeRewarded(sampling, *prompts.valid, place.reports);
  CheckScoreNames(*prompts.valid, config);
  prompts.data.valid = prompts.valid->AsRows();
}

void ProbeRewards(const Config& config, const Prompts& prompts) {
  for (const std::string& name : config.rl().rewards()) {
    if (RewardModelIn(name)) continue;
    const auto rewarded = {FactsOf(config).method == MethodKind::kPolicy ? prompts.sampled : nullptr, prompts.valid};
    for (const auto& asked : rewarded) {
      if (asked) OpenReward(name, config)->Probe(*asked);
    }
  }
}

}  // namespace trireme
