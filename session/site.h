// Site: where a rank of a run works: its device, what its tensors are computed on, its groups. Also sets
// what holds for the whole process. Knows no model.
#pragma once

#include <memory>

#include "core/comm/communicator_set.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "core/device/device.h"
#include "core/tensor/tensor_device.h"
#include "session/run_plan.h"

namespace trireme {

class Trace;

// What can be planned but does not run in this program (a device that it was not built for) is refused before
// any work, never ignored.
void RefuseUnsupported(const Config& config);

struct Site {
  // Collective. `job` outlives it; `trace` may be null.
  Site(const Config& config, const RunPlan& plan, Job& job, Trace* trace = nullptr);

  Device device;
  TensorDevice& tensors;
  std::unique_ptr<CommunicatorSet> groups;
};

}  // namespace trireme
