// Whether a run can do what the section eval asks for: refused by name before any work. No torch.
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Does nothing without eval.generate.
void CheckAnswerEvaluation(const Config& config);
// The same for a run, which must evaluate at all.
void CheckRunAnswers(const Config& config);

}  // namespace trireme
