#include "stages/reference_sync_check.h"

#include "core/base/error.h"
#include "stages/preference_check.h"

namespace trireme {

void CheckReferenceSync(const Config& config) {
  const ReferenceSyncConfig& sync = config.reference_sync();
  if (sync.steps() == 0) {
    if (sync.alpha() == ReferenceSyncConfig().alpha()) return;
    throw InputError("reference_sync.alpha = ", sync.alpha(),
                     " has no part in this run: reference_sync.steps is 0; leave it out");
  }
  const auto refuse = [&](const std::string& why) {
    throw InputError("reference_sync.steps = ", sync.steps(), ": ", why);
  };
  if (config.stage() == STAGE_GKD) refuse("the teacher of stage gkd stays as it is; leave it out");
  if (!WantsReference(config)) refuse("this run compares with no reference; leave it out");
  if (config.tuning().kind() != TUNING_FULL) {
    refuse("without tuning.kind: full no second model holds all the weights that would be mixed; leave it out");
  }
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
