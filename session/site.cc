#include "session/site.h"

#include "core/base/process.h"
#include "core/device/cann_info.h"
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

TensorDevice TensorDeviceFor(const Config& config, Device& device) {
  if (ResolveDevice(config.device(), QueryCann().twin) == DEVICE_CPU) return TensorDevice::Cpu();
  device.LeaveSet();  // torch_npu's from now on
  return TensorDevice::OfNpu(device.index());
}

}  // namespace

Site::Site(const Config& config, const RunPlan& plan, Job& job, Trace* trace)
    : device(Device::ForLocalRank(job.local_rank())),
      tensors(TensorDeviceFor(config, device)),
      groups(std::make_unique<CommunicatorSet>(job, device, plan.groups,
                                               CommOptionsFor(tensors, config, trace))) {
  KeepFreedMemory();
  TurnOperatorsOff({config.ops().off().begin(), config.ops().off().end()});
  SetTorchDeterministic(config.run().deterministic());
}

}  // namespace trireme
