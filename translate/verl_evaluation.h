// How verl's policy trainer evaluates, and what it rewards by a function of the user's. Its steps are samplings, ours
// are updates.
#pragma once

#include <string>
#include <vector>

#include "translate/system.h"

namespace trireme {

std::vector<RuleRow> VerlEvaluationRows();
// After the batch, which says how many updates a sampling has.
void FinishVerlEvaluation(const Given& given, Translation& result);

}  // namespace trireme
