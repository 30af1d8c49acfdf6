#include "core/device/device.h"

#include <cstdint>

#include "acl/acl.h"
#include "core/device/acl_call.h"
#include "core/device/cann_info.h"

namespace trireme {
namespace {

// Once per process. There is no matching aclFinalize: other libraries (torch_npu) may still use ACL
// during static destruction, and the end of the process releases everything.
void InitialiseAcl() {
  static const aclError code = aclInit(nullptr);
  if (code != ACL_ERROR_REPEAT_INITIALIZE) AclCall(code, "aclInit");
}

}  // namespace

int Device::Count() {
  InitialiseAcl();
  uint32_t count = 0;
  AclCall(aclrtGetDeviceCount(&count), "aclrtGetDeviceCount");
  return static_cast<int>(count);
}

Device::Device(int index) : index_(index), index_on_reset_(index) {
  const int count = Count();
  if (index < 0 || index >= count) {
    throw InputError("device ", index, " was requested, but this host has ", count, " (0 to ", count - 1, ")");
  }
  MakeCurrent();
}

Device Device::ForLocalRank(int local_rank) {
  const int count = Count();
  if (local_rank >= count) {
    const char* share =
        CannProvider() == "cuda" ? "to share a GPU set CUDA_PROVIDER_RANKS_PER_GPU=" : "on the twin set TWIN_DEVICES=";
    throw InputError("local rank ", local_rank, " has no device: this host has ", count, "; start at most ", count,
                     " ranks per host, or ", share, local_rank + 1, " or more");
  }
  return Device(local_rank);
}

Device::~Device() {
  // The code is dropped: a device that cannot be reset has already failed in a call that was checked.
  if (index_on_reset_ != kNone) static_cast<void>(aclrtResetDevice(index_on_reset_));
}

DeviceMemory Device::memory() const {
  DeviceMemory memory;
  AclCall(aclrtGetMemInfo(ACL_HBM_MEM, &memory.free_bytes, &memory.total_bytes), "aclrtGetMemInfo", "device ", index_);
  return memory;
}

void Device::MakeCurrent() const { AclCall(aclrtSetDevice(index_), "aclrtSetDevice", "device ", index_); }

void Device::Synchronize() const { AclCall(aclrtSynchronizeDevice(), "aclrtSynchronizeDevice", "device ", index_); }

}  // namespace trireme
