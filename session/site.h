// Site: where a rank runs: its device, where its tensors are computed, its groups. Also applies
// process-wide settings. Knows no model.
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

// Configurations that can be planned but not run by this program (a device it was not built for) are rejected
// before any work, never ignored.
void RefuseUnsupported(const Config& config);

struct Site {
  // Collective. `job` outlives it; `trace` may be null.
  Site(const Config& config, const RunPlan& plan, Job& job, Trace* trace = nullptr);

  // The same device with the groups of another plan. `other` outlives it. Collective.
  Site(const Site& other, const Config& config, const RunPlan& plan, Job& job, Trace* trace = nullptr);

  Device device;
  TensorDevice& tensors;
  std::unique_ptr<CommunicatorSet> groups;
};

}  // namespace trireme
