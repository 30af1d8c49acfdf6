// The list of objectives that a run can select by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/objectives/objective.h"
#include "parallel/objectives/objective_options.h"

namespace trireme {

std::vector<std::string> ObjectiveNames();
// Refuses a name that is not in the list.
std::unique_ptr<Objective> MakeObjective(const std::string& name, const ObjectiveOptions& options = {});

}  // namespace trireme
