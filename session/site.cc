#include "session/site.h"

#include "core/base/process.h"
#include "core/tensor/tensor_devices.h"
#include "core/tensor/torch_runtime.h"
#include "ops/switches.h"

namespace trireme {
namespace {

CommOptions CommOptionsFor(const TensorDevice& tensors, const Config& config, Trace* trace) {
  CommOptions options = CommOptionsOf(config);
  options.host_memory = tensors.is_cpu();
  options.compute = tensors.compute();
  options.trace = trace;
  return options;
}

}  // namespace

void RefuseUnsupported(const Config& config) { ChooseTensorDevice(config.device()); }

Site::Site(const Config& config, const RunPlan& plan, Job& job, Trace* trace)
    : device(Device::ForLocalRank(job.local_rank())),
      tensors(OpenTensorDevice(config.device(), device)),
      groups(std::make_unique<CommunicatorSet>(job, device, plan.groups, CommOptionsFor(tensors, config, trace))) {
  KeepFreedMemory();
  TurnOperatorsOff({config.ops().off().begin(), config.ops().off().end()});
  SetTorchDeterministic(config.run().deterministic());
}

Site::Site(const Site& other, const Config& config, const RunPlan& plan, Job& job, Trace* trace)
    : device(other.device.index()),
      tensors(other.tensors),
      groups(std::make_unique<CommunicatorSet>(job, device, plan.groups, CommOptionsFor(tensors, config, trace))) {
  device.LeaveSet();  // the other resets it
}

}  // namespace trireme
