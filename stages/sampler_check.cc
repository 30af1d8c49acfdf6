#include "stages/sampler_check.h"

#include "core/base/error.h"
#include "stages/distillation_check.h"
#include "stages/other_layout.h"

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

// Keys that only an endpoint, or a sampler outside, would honour.
void RefuseEndpointKeys(const Config& config) {
  const SamplerConfig& sampler = config.rl().sampler();
  const SamplerConfig defaults;
  const char* const none = "rl.sampler.endpoint is empty";
  if (!sampler.model().empty()) RefuseSamplerKey("model", none);
  if (!sampler.key_file().empty()) RefuseSamplerKey("key_file", none);
  if (sampler.concurrency() != defaults.concurrency()) RefuseSamplerKey("concurrency", none);
  if (sampler.retries() != defaults.retries()) RefuseSamplerKey("retries", none);
  if (sampler.log_probs() != defaults.log_probs()) RefuseSamplerKey("log_probs", none);
  if (sampler.one_behind()) RefuseSamplerKey("one_behind", none);
  if (!config.rl().rollouts().empty()) return;
  if (!sampler.weights().empty()) RefuseSamplerKey("weights", "this program samples with its own");
  if (sampler.seconds() != defaults.seconds()) RefuseSamplerKey("seconds", "this program samples");
}

void CheckSamplingLayout(const Config& config) {
  const auto refuse = [](const char* why) {
    throw InputError("rl.sampling has no part in this run: ", why, "; leave it out");
  };
  if (!HasSamplingLayout(config)) return;
  if (!config.rl().rollouts().empty()) refuse("rl.rollouts has the completions");
  if (!config.rl().sampler().endpoint().empty()) refuse("rl.sampler.endpoint samples");
  if (config.stage() == STAGE_GKD) refuse("stage gkd samples under the layout of training");
  const ParallelConfig &training = config.parallel(), sampling = UnderSamplingLayout(config).parallel();
  if (SameLayout(training, sampling)) refuse("it is the layout of parallel, and would be a second copy of the weights");
}

void CheckLentMemory(const Config& config) {
  if (!config.rl().offload_optimizer()) return;
  const auto refuse = [](const char* why) {
    throw InputError("rl.offload_optimizer has no part in this run: ", why, "; leave it out");
  };
  if (config.memory().offload_optimizer())
    refuse("memory.offload_optimizer keeps masters and moments in host memory anyway");
  if (!config.rl().rollouts().empty()) refuse("rl.rollouts has the completions");
  if (!config.rl().sampler().endpoint().empty()) refuse("rl.sampler.endpoint samples");
  if (config.stage() == STAGE_GKD && !DistillationSamples(config)) refuse("the data has all answers");
}

}  // namespace

bool HasSamplingLayout(const Config& config) { return IsLayout(config.rl().sampling()); }
Config UnderSamplingLayout(const Config& config) { return UnderLayout(config, config.rl().sampling()); }

void CheckSampler(const Config& config) {
  const SamplerConfig& sampler = config.rl().sampler();
  const SamplerConfig defaults;
  const bool endpoint = !sampler.endpoint().empty(), rollouts = !config.rl().rollouts().empty();
  if (endpoint && rollouts) RefuseSamplerKey("endpoint", "rl.rollouts has the completions");
  if (endpoint && config.stage() == STAGE_GKD) RefuseSamplerKey("endpoint", "stage gkd samples in this program");
  if (!endpoint) RefuseEndpointKeys(config);
  if (sampler.weights().empty()) {
    const char* const none = "rl.sampler.weights is empty";
    if (!sampler.reload().empty()) RefuseSamplerKey("reload", none);
    if (sampler.weights_every() != defaults.weights_every()) RefuseSamplerKey("weights_every", none);
    if (sampler.keep() != defaults.keep()) RefuseSamplerKey("keep", none);
  }
  CheckReload(sampler);
  CheckSamplingLayout(config);
  CheckLentMemory(config);
  if (endpoint) CheckEndpoint(config);
}

}  // namespace trireme
