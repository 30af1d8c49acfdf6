// The job's ranks as the process group that checkpoint/ uses.
#pragma once

#include "checkpoint/process_group.h"
#include "core/comm/job.h"

namespace trireme {

// `job` outlives it.
inline ProcessGroup ProcessGroupOf(Job& job) {
  return {.rank = job.rank(), .size = job.world(), .barrier = [&job] { job.Barrier(); }};
}

}  // namespace trireme
