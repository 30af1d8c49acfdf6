// Which operators are turned off for the process, by name: for debugging (ops.off). Names come from the
// list of operators (operator_names.h). No torch here.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Every operator that has implementations other than its reference.
const std::vector<std::string>& OperatorNames();

// Throws an InputError for an unknown name, with the nearest known one.
void RefuseUnknownOperators(const std::vector<std::string>& ops);

// These use their reference from now on.
void TurnOperatorsOff(const std::vector<std::string>& ops);
bool OperatorIsOff(const std::string& op);

}  // namespace trireme
