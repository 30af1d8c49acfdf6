// Downloads by one process per host, while the others wait. Knows nothing of what is downloaded.
#pragma once

#include <functional>

#include "core/comm/job.h"

namespace trireme {

// Collective. Rank 0 fetches; then on hosts where it is still missing one rank each.
void FetchInTurns(Job& job, const std::function<bool()>& is_missing, const std::function<void()>& fetch);

}  // namespace trireme
