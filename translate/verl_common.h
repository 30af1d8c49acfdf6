// What verl's trainers have in common: the optimizer, Megatron's layout, loggers. Names come without their section,
// which differs between them.
#pragma once

#include "translate/system.h"

namespace trireme {

// "a.b a.c" of section "a." and names "b c".
std::string In(const std::string& section, const std::string& names);
// -1 is 0 here.
Rule NeverAsMinusOne(const std::string& key);

// Rows of the optimizer, `section` being "optim.".
std::vector<RuleRow> VerlOptimizerRows(const std::string& section);
// Rows of the layout on Megatron's core, `section` being "engine.".
std::vector<RuleRow> VerlMegatronRows(const std::string& section);
// Rows of the layout of Megatron Lite, `section` being "actor_rollout_ref.actor.engine.".
std::vector<RuleRow> VerlLiteRows(const std::string& section);
void VerlVirtualStages(const Setting& setting, Translation& result);
// Rows of the model, `section` being "model.".
std::vector<RuleRow> VerlModelRows(const std::string& section);
// Rows of trainer.*
std::vector<RuleRow> VerlTrainerRows();

// What is left of the optimizer when all rows have been applied: the smallest rate as a ratio, and defaults.
void FinishVerlOptimizer(const Given& given, const std::string& section, Translation& result);

}  // namespace trireme
