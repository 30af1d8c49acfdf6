// The list of objectives that a run can select by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "parallel/objectives/objective.h"

namespace trireme {

std::vector<std::string> ObjectiveNames();
// Refuses a name that is not in the list.
std::unique_ptr<Objective> MakeObjective(const std::string& name, const Config& config = {});

}  // namespace trireme
