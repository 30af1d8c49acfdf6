// How stages that train on completions evaluate: the model answers the prompts of data.valid, and the answers are
// rewarded. What the keys must be, checked before anything is read, and what follows from them. No torch.
#pragma once

#include <string>

#include "core/config.pb.h"

namespace trireme {

// Whether a run has evaluations at all, of whatever stage.
bool Evaluates(const Config& config);
// Whether completions are sampled for them.
bool EvaluatesCompletions(const Config& config);
// The same run as an evaluation samples: data.train, and the keys of rl that sampling reads, are those of data.valid
// and eval.
Config EvaluationSampling(const Config& config);
// What evaluations are compared by, as the log names it without eval_, the higher the better; empty: by the loss, the
// lower the better.
std::string EvaluationMetric(const Config& config);

// Refuses what does not fit together. Nothing for stages that train on rows.
void CheckCompletionEvaluation(const Config& config);

}  // namespace trireme
