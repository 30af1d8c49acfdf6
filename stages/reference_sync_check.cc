#include "stages/reference_sync_check.h"

#include "core/base/error.h"
#include "stages/preference_check.h"
#include "stages/stage.h"

namespace trireme {

void CheckReferenceSync(const Config& config) {
  const ReferenceSyncConfig& sync = config.reference_sync();
  if (sync.steps() == 0 || !FactsOf(config).reference) return;  // the schema refuses it in other stages
  const auto refuse = [&](const std::string& why) {
    throw InputError("reference_sync.steps = ", sync.steps(), ": ", why);
  };
  if (!WantsReference(config)) refuse("this run compares with no reference; leave it out");
  if (config.preference().precompute_ref_log_probs()) {
    refuse(
        "preference.precompute_ref_log_probs computes log-probabilities of a reference that stays; leave one of them "
        "out");
  }
  if (config.memory().offload_reference()) {
    refuse(
        "memory.offload_reference keeps weights in host memory that never change; leave one of them out, or use "
        "memory.shard_reference");
  }
}

}  // namespace trireme
