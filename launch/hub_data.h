// Data sets that a configuration names by their hub id: found in a cache or downloaded, and kept for data/ to find.
#pragma once

#include "core/comm/job.h"
#include "core/config.pb.h"

namespace trireme {

// Collective. Of data.train and data.valid. An input error, which begins with the key, for one that cannot be had.
void HaveHubData(const Config& config, Job& job);

// The same for a process that works alone.
void HaveHubData(const Config& config);

}  // namespace trireme
