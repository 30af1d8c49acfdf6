// What the keys of preference training must be, checked before anything is read. No torch.
#pragma once

#include <string>

#include "core/config.pb.h"

namespace trireme {

// dpo, kto, orpo, simpo, cpo, rm.
bool IsPreference(Stage stage);
// Stages whose samples are pairs of answers; the others' are single ones.
bool HasPairs(Stage stage);
// What the run compares with, as the configuration names it: reference, or the teacher's directory.
const std::string& ReferenceName(const Config& config);
// Whether log-probabilities of a reference are computed.
bool WantsReference(const Config& config);
// Whether that reference is a second model in memory, and not the trained one without its adapter.
bool NeedsSecondModel(const Config& config);
// Whether the loss compares with how far the policy is from the reference over the whole batch (KTO's KL).
bool EstimatesKl(const Config& config);
// Whether some loss compares answers over the whole batch.
bool SortsAnswers(const Config& config);
// The stage as it is spelt: its objective's name.
std::string NameOf(Stage stage);

// Refuses what does not fit together. Nothing for other stages.
void CheckPreference(const Config& config);

}  // namespace trireme
