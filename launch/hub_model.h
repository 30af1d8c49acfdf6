// A model that a command names: a directory, or a name on a hub, which is downloaded if no local cache has it.
#pragma once

#include <string>

#include "core/comm/job.h"
#include "web/hub/hub_download.h"

namespace trireme {

// Collective. Rank 0 downloads; hosts that do not see its cache have one rank each that does so, too, while the others
// wait. An input error, which begins with `key`, if the model cannot be had.
std::string ModelHere(const std::string& path, const std::string& key, Job& job, HubParts parts = HubParts::kAll);

}  // namespace trireme
