#include "stages/preference_check.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/objectives/pair_losses.h"
#include "stages/stage.h"

namespace trireme {
namespace {

std::vector<std::string> LossNames(Stage stage) {
  if (stage == STAGE_KTO) return {"kto", "apo_zero_unpaired"};
  if (stage == STAGE_SIMPO) return {"simpo"};
  if (stage == STAGE_CPO) return NamesOf(CpoLosses());
  if (stage != STAGE_DPO) return {};
  std::vector<std::string> names = NamesOf(DpoLosses());
  names.push_back("sft");
  return names;
}

void CheckLosses(const Config& config) {
  const PreferenceConfig& preference = config.preference();
  const std::vector<std::string> names = LossNames(config.stage());
  for (const std::string& loss : preference.loss()) {
    if (std::ranges::find(names, loss) != names.end()) continue;
    if (names.empty()) break;  // refused by its name alone (core/config/unused_keys.h)
    throw InputError("preference.loss has '", loss, "'; wanted for stage ", NameOf(config.stage()), ": ", Join(names));
  }
  if (!preference.weights().empty() && preference.weights_size() != preference.loss_size()) {
    throw InputError("preference.weights has ", preference.weights_size(), " numbers for ", preference.loss_size(),
                     " losses in preference.loss; wanted one each, or none");
  }
  if (config.stage() == STAGE_KTO && preference.loss_size() > 1) {
    throw InputError("preference.loss: stage kto takes one of ", Join(names), "; it has ", preference.loss_size());
  }
}

// As each loss's formula wants it.
void CheckLossOptions(const Config& config) {
  const PreferenceConfig& preference = config.preference();
  const double smoothing = preference.label_smoothing();
  if (preference.beta() <= 0) throw InputError("preference.beta = ", preference.beta(), "; wanted above 0");
  for (const std::string& loss : preference.loss()) {
    if (config.stage() != STAGE_DPO) break;
    if (loss == "exo_pair" && smoothing == 0) {
      throw InputError("preference.label_smoothing = 0: exo_pair takes its logarithm; write 1.0e-3 or more");
    }
    if (loss == "robust" && smoothing >= 0.5) {
      throw InputError("preference.label_smoothing = ", smoothing, ": robust divides by 1 - 2 x it; wanted below 0.5");
    }
    const auto found = std::ranges::find_if(DpoLosses(), [&](const PairLoss& known) { return loss == known.name; });
    if (preference.divergence() != DIVERGENCE_REVERSE_KL && found != DpoLosses().end() && !found->diverges) {
      throw InputError("preference.divergence: ", loss, " is defined for reverse_kl alone");
    }
  }
}

void CheckReference(const Config& config) {
  const bool free = config.reference() == "none" || config.preference().reference_free();
  if (FactsOf(config).records == Records::kJudged && free) {
    throw InputError("stage ", NameOf(config.stage()),
                     " needs a reference; write reference: base, or a model's directory");
  }
  if (config.stage() == STAGE_DPO && config.preference().reference_free() && config.reference() != "none" &&
      config.reference() != "base") {
    throw InputError("preference.reference_free: true, and reference: ", config.reference(), "; write one of them");
  }
  if (config.reference() == "start" && config.tuning().kind() != TUNING_LORA) {
    throw InputError("reference: start is for tuning.kind: lora; elsewhere base is the same, write that");
  }
}

// Where the reference's weights and log-probabilities are kept.
void CheckReferenceMemory(const Config& config) {
  const MemoryConfig& memory = config.memory();
  if ((memory.offload_reference() || memory.shard_reference()) && !NeedsSecondModel(config)) {
    throw InputError("memory.", memory.offload_reference() ? "offload" : "shard",
                     "_reference: true: this run has no second model as its reference; leave it out");
  }
  if (!config.preference().precompute_ref_log_probs()) return;
  if (!WantsReference(config)) {
    throw InputError("preference.precompute_ref_log_probs: true: this run has no reference; leave it out");
  }
}

}  // namespace

bool ComparesWithItself(const Config& config) {
  return config.stage() != STAGE_GKD && (config.reference() == "base" || config.reference() == "start");
}

bool WantsReference(const Config& config) {
  if (FactsOf(config).records == Records::kJudged || config.stage() == STAGE_GKD) return true;
  if (FactsOf(config).method == MethodKind::kPolicy) return config.rl().beta() > 0 && config.reference() != "none";
  return config.stage() == STAGE_DPO && config.reference() != "none" && !config.preference().reference_free();
}

bool NeedsSecondModel(const Config& config) {
  return WantsReference(config) && !(ComparesWithItself(config) && config.tuning().kind() == TUNING_LORA);
}

bool EstimatesKl(const Config& config) {
  const PreferenceConfig& preference = config.preference();
  return config.stage() == STAGE_KTO && (preference.loss_size() == 0 || preference.loss(0) != "apo_zero_unpaired");
}

bool ReportsKl(const Config& config) { return config.stage() == STAGE_KTO; }

bool SortsAnswers(const Config& config) {
  if (config.stage() != STAGE_DPO) return false;
  return std::ranges::any_of(config.preference().loss(), [](const std::string& loss) {
    return std::ranges::any_of(DpoLosses(), [&](const PairLoss& known) { return loss == known.name && known.sorts; });
  });
}

double LongerAnswerWeight(const Config& config) {
  return config.stage() == STAGE_DPO ? config.preference().ld_alpha() : 1;
}

bool CanLearnPrompt(const StageFacts& facts) { return facts.stage == STAGE_ORPO; }

bool LearnsPrompt(const Config& config) {
  return CanLearnPrompt(FactsOf(config)) && config.preference().orpo_prompt_nll();
}

std::string NameOf(Stage stage) { return FactsOf(stage).name; }

void CheckPreference(const Config& config) {
  if (FactsOf(config).method != MethodKind::kPreference) return;
  CheckLosses(config);
  CheckLossOptions(config);
  CheckReference(config);
  CheckReferenceMemory(config);
  if (config.data().over_length() == OVER_LENGTH_SPLIT) {
    throw InputError("data.over_length: split would part answers from their prompts; write drop or truncate");
  }
}

}  // namespace trireme
