#include "stages/sampler_check.h"

#include "core/base/error.h"
#include "stages/distillation_check.h"
#include "stages/evaluation_check.h"
#include "stages/other_models.h"

namespace trireme {
namespace {

void RefuseSamplerKey(const char* key, const char* why) {
  throw InputError("rl.sampler.", key, " has no part in this run: ", why, "; leave it out");
}

void CheckEndpoint(const Config& config) {
  const RlConfig& rl = config.rl();
  const SamplerConfig& sampler = rl.sampler();
  if (!rl.environment().empty()) {
    throw InputError("rl.environment: the completions of rl.sampler.endpoint are one turn; leave one of them out");
  }
  const bool told = !sampler.reload().empty() || config.tuning().kind() == TUNING_LORA;
  if (!sampler.weights().empty() && !told) {
    throw InputError(
        "rl.sampler.reload is empty: the server of rl.sampler.endpoint would not learn of new weights; set ",
        "http://HOST:PORT/PATH or program:COMMAND");
  }
  if (rl.sampler_correction() == CORRECTION_NONE) return;
  if (sampler.log_probs() == SAMPLER_LOG_PROBS_RAW && rl.temperature() != 1) {
    throw InputError(
        "rl.sampler_correction needs log-probabilities at rl.temperature = ", rl.temperature(),
        ", and rl.sampler.log_probs: raw are at 1; let the server give processed ones (vLLM: --logprobs-mode ",
        "processed_logprobs), or sample at temperature 1");
  }
  if (sampler.log_probs() == SAMPLER_LOG_PROBS_PROCESSED && (rl.top_p() < 1 || rl.top_k() > 0)) {
    throw InputError(
        "rl.sampler_correction: with rl.top_p or rl.top_k, rl.sampler.log_probs: processed are of the kept tokens ",
        "alone, and the trainer's of all; leave one of them out");
  }
}

void CheckReload(const SamplerConfig& sampler) {
  const bool program = sampler.reload().starts_with("program:") && sampler.reload().size() > sizeof "program:" - 1;
  if (!sampler.reload().empty() && !program && !sampler.reload().starts_with("http://")) {
    throw InputError("rl.sampler.reload: ", sampler.reload(), "; wanted http://HOST:PORT/PATH or program:COMMAND");
  }
}

// Keys that only a sampler outside, a server or one that fills a directory, would honour.
void RefuseOutsideKeys(const Config& config) {
  const SamplerConfig& sampler = config.rl().sampler();
  if (!sampler.endpoint().empty() || !config.rl().rollouts().empty()) return;
  if (!sampler.weights().empty()) RefuseSamplerKey("weights", "this program samples with its own");
  if (sampler.seconds() != SamplerConfig().seconds()) RefuseSamplerKey("seconds", "this program samples");
}

void CheckSamplingLayout(const Config& config) {
  if (!RepeatsLayout(config, ModelRole::kSampler)) return;
  throw InputError(
      "rl.sampling has no part in this run: it is the layout of parallel, and would be a second copy of the weights; "
      "leave it out");
}

void CheckLentMemory(const Config& config) {
  if (!config.rl().offload_optimizer() || config.stage() != STAGE_GKD) return;
  if (DistillationSamples(config) || EvaluatesCompletions(config)) return;
  throw InputError("rl.offload_optimizer has no part in this run: the data has all answers; leave it out");
}

}  // namespace

void CheckSampler(const Config& config) {
  const SamplerConfig& sampler = config.rl().sampler();
  RefuseOutsideKeys(config);
  CheckReload(sampler);
  CheckSamplingLayout(config);
  CheckLentMemory(config);
  if (!sampler.endpoint().empty()) CheckEndpoint(config);
}

}  // namespace trireme
