// What `swift` and `megatron` of ms-swift have in common: data, tuners, methods of alignment.
#pragma once

#include "translate/system.h"

namespace trireme {

std::string SwiftStage(const Given& given);
std::vector<RuleRow> SwiftRules();
// Frozen parts, learning rates of parts, weights in 4 bits, and the methods' own defaults.
void FinishSwift(const Given& given, const std::string& stage, Translation& result);

}  // namespace trireme
