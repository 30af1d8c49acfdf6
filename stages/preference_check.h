// What the keys of preference training must be, checked before anything is read. No torch.
#pragma once

#include <string>

#include "core/config.pb.h"
#include "stages/stage.h"

namespace trireme {

// Whether the run compares with the model itself, as it was: base, or start.
bool ComparesWithItself(const Config& config);
// Whether log-probabilities of a reference are computed.
bool WantsReference(const Config& config);
// Whether that reference is a second model in memory, and not the trained one without its adapter.
bool NeedsSecondModel(const Config& config);
// Whether the loss compares with how far the policy is from the reference over the whole batch (KTO's KL).
bool EstimatesKl(const Config& config);
// Whether that is among the metrics: 0 where the loss compares with none.
bool ReportsKl(const Config& config);
// Whether some loss compares answers over the whole batch.
bool SortsAnswers(const Config& config);
// The weight of an answer's labels beyond the length of the other one; 1: as all others.
double LongerAnswerWeight(const Config& config);
// Whether the likelihood of a pair's prompt can be part of the loss, and whether it is.
bool CanLearnPrompt(const StageFacts& facts);
bool LearnsPrompt(const Config& config);
// The stage as it is spelt.
std::string NameOf(Stage stage);

// Refuses what does not fit together. Nothing for other stages.
void CheckPreference(const Config& config);

}  // namespace trireme
