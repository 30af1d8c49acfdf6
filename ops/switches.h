// Which operators are turned off for the whole process, by name: for debugging (ops.off). Names come from the
// list of operators (operator_names.h). No torch in here.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Every operator that has more implementations than its reference.
const std::vector<std::string>& OperatorNames();

// Throws an InputError for a name that is not one, with the nearest that is.
void RefuseUnknownOperators(const std::vector<std::string>& ops);

// These take their reference from now on.
void TurnOperatorsOff(const std::vector<std::string>& ops);
bool OperatorIsOff(const std::string& op);

}  // namespace trireme
