// What Megatron-LM, MindSpeed-LLM and ms-swift's `megatron` have in common: layout, optimizer, recomputation, experts.
#pragma once

#include "translate/system.h"

namespace trireme {

std::vector<RuleRow> MegatronRules();
// FP8: rules, and what the flags say together.
std::vector<RuleRow> MegatronFp8Rules();
void SetMegatronFp8(const Given& given, Translation& result);
// tuning.targets; Megatron's fused modules as those of Hugging Face's that they consist of.
void SetAdapterTargets(const Setting& setting, Translation& result);
// Recomputation, virtual stages, layers of the first and last stage, moments. `layers`: of the model; 0 if not known.
void FinishMegatron(const Given& given, int layers, Translation& result);

}  // namespace trireme
