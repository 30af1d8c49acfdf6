#include "stages/evaluation_check.h"

#include "core/base/error.h"
#include "core/config/compare.h"
#include "core/config/stage_defaults.h"
#include "stages/other_models.h"
#include "stages/policy_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

constexpr char kWhenToEvaluate[] = "set eval.every, eval.every_epoch or eval.at_start";

// What is set for evaluations in a run that has none.
void RefuseWithoutEvaluations(const Config& config) {
  Config plain = config;
  plain.clear_eval();
  FillStageDefaults(plain);
  // As they are where no file was read, which would have filled in the stage's defaults.
  const EvalConfig unread;
  plain.mutable_eval()->set_generate(config.eval().generate());
  if (config.eval().max_new_tokens() == unread.max_new_tokens()) {
    plain.mutable_eval()->set_max_new_tokens(unread.max_new_tokens());
  }
  // What ends a run by its evaluations is refused by CheckBestEvaluation.
  plain.mutable_eval()->set_early_stopping(config.eval().early_stopping());
  plain.mutable_eval()->set_early_stopping_threshold(config.eval().early_stopping_threshold());
  for (const KeyDifference& set : DifferingKeys(plain, config)) {
    throw InputError(set.key, " = ", set.now, " is for evaluations, and this run has none; ", kWhenToEvaluate);
  }
  if (config.stage() == STAGE_GKD && config.rl().rewards_size() > 0) {
    throw InputError("rl.rewards: stage gkd has rewards in evaluations only, and this run has none; ", kWhenToEvaluate,
                     ", or leave rl.rewards out");
  }
}

void CheckEvaluationSampling(const EvalConfig& eval) {
  if (!eval.generate()) {
    throw InputError(
        "eval.generate = false: where completions are trained on, an evaluation is made of them; leave it out");
  }
  if (eval.completions() > 1 && eval.temperature() == 0) {
    throw InputError("eval.completions = ", eval.completions(),
                     " with eval.temperature = 0: the most likely completion is always the same; set a temperature ",
                     "above 0 (verl: val_kwargs.do_sample), or eval.completions: 1");
  }
  if (eval.top_p() == 0) throw InputError("eval.top_p = 0: wanted a probability above 0 and up to 1");
  if (eval.repetition_penalty() == 0)
    throw InputError("eval.repetition_penalty = 0: wanted a factor above 0; 1 changes nothing");
}

// Why no completions can be sampled, or rewarded.
void CheckCanSample(const Config& config) {
  if (!config.rl().rollouts().empty()) {
    throw InputError("an evaluation samples completions and rewards them, and the rewards of rl.rollouts are in ",
                     config.rl().rollouts(), "; leave evaluations out, or sample (data.train and rl.rewards)");
  }
  if (config.parallel().context() > 1 && !OtherModelOf(config, ModelRole::kSampler)) {
    throw InputError("parallel.context = ", config.parallel().context(),
                     ": evaluations sample no completions under context parallelism; write 1, set another layout for ",
                     "sampling (rl.sampling), or leave evaluations out");
  }
}

}  // namespace

bool Evaluates(const Config& config) {
  return config.eval().every() > 0 || config.eval().every_epoch() || config.eval().at_start();
}

bool EvaluatesCompletions(const Config& config) { return FactsOf(config).on_completions() && Evaluates(config); }

Config EvaluationSampling(const Config& config) {
  Config sampling = config;
  *sampling.mutable_data()->mutable_train() = config.data().valid();
  RlConfig& rl = *sampling.mutable_rl();
  const EvalConfig& eval = config.eval();
  rl.set_temperature(eval.temperature());
  rl.set_top_k(eval.top_k());
  rl.set_top_p(eval.top_p());
  if (eval.max_new_tokens() > 0) rl.set_max_new_tokens(eval.max_new_tokens());
  return sampling;
}

std::string EvaluationMetric(const Config& config) {
  const bool writes_answers = config.stage() == STAGE_SFT && config.eval().generate();
  if (!FactsOf(config).on_completions()) return writes_answers ? config.eval().metric() : "";
  return config.eval().metric().empty() ? Concat("mean@", config.eval().completions()) : config.eval().metric();
}

void CheckCompletionEvaluation(const Config& config) {
  if (!FactsOf(config).on_completions()) return;
  if (!Evaluates(config)) return RefuseWithoutEvaluations(config);
  CheckEvaluationSampling(config.eval());
  CheckCanSample(config);
  if (config.data().valid().empty()) {
    const int every = config.eval().every();
    throw InputError(every > 0 ? Concat("eval.every = ", every)
                               : Concat(config.eval().at_start() ? "eval.at_start" : "eval.every_epoch", " = true"),
                     " has nothing to evaluate on; set data.valid, or leave it out");
  }
  const int64_t steps = StepsPerSampling(config.rl());
  if (config.save().final_from() == FINAL_FROM_BEST && config.eval().every() % steps != 0) {
    throw InputError("eval.every = ", config.eval().every(), " parts the steps that share completions, and ",
                     "save.final_from: best saves after evaluations; wanted a multiple of rl.steps_per_generation x ",
                     "rl.iterations = ", steps);
  }
}

}  // namespace trireme
