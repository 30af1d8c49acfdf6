// Devices: select, count, reset, synchronise, abort.
#include <unistd.h>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/host_waits.h"
#include "twin/acl/runtime/mapped_memory.h"
#include "twin/acl/runtime/runtime.h"

using twin::Context;
using twin::Device;
using twin::Fail;
using twin::FailNull;
using twin::Runtime;
using twin::Signal;
using twin::Text;

namespace {

aclError RequireDevice(const char* function, int32_t id, Device** device) {
  *device = Runtime::Get().device(id);
  if (*device != nullptr) return ACL_SUCCESS;
  if (const std::string& problem = twin::settings().problem; !problem.empty()) {
    return Fail(ACL_ERROR_RT_NO_DEVICE, function, problem);
  }
  return Fail(ACL_ERROR_RT_INVALID_DEVICEID, function,
              Text("no device ", id, "; wanted 0 to ", Runtime::Get().device_count() - 1));
}

aclError SynchronizeAll(const char* function, Signal::Clock::time_point deadline) {
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(function, &context));
  twin::CountHostWait(function);
  aclError first = ACL_SUCCESS;
  for (const auto& stream : Runtime::Get().StreamsOf(context->device)) {
    const aclError error = stream->Synchronize(function, deadline);
    if (first == ACL_SUCCESS) first = error;
  }
  return first;
}

}  // namespace

aclError aclrtSetDevice(int32_t deviceId) {
  TWIN_TRY(twin::RequireInit(__func__));
  Device* device = nullptr;
  TWIN_TRY(RequireDevice(__func__, deviceId, &device));
  std::lock_guard lock(device->mutex);
  if (device->default_context == nullptr) device->default_context = Runtime::Get().NewContext(deviceId, true);
  twin::SetCurrent(device->default_context);
  return ACL_SUCCESS;
}

// As ACL documents: one call undoes any number of aclrtSetDevice, on all threads. It frees the device's
// memory and destroys the default context and its streams by force; the program must destroy the contexts it
// created itself beforehand.
aclError aclrtResetDevice(int32_t deviceId) {
  Device* device = nullptr;
  TWIN_TRY(RequireDevice(__func__, deviceId, &device));
  std::shared_ptr<Context> context;
  {
    std::lock_guard lock(device->mutex);
    context = std::move(device->default_context);
    device->default_context = nullptr;
    device->peers.clear();
  }
  if (context == nullptr) return ACL_SUCCESS;
  for (const auto& [handle, other] : Runtime::Get().contexts.All()) {
    if (other->device == deviceId) Runtime::Get().DropContext(other);
  }
  twin::DropMapped(deviceId);
  device->memory.FreeAll();
  return ACL_SUCCESS;
}

aclError aclrtResetDeviceForce(int32_t deviceId) { return aclrtResetDevice(deviceId); }

aclError aclrtGetDevice(int32_t* deviceId) {
  if (deviceId == nullptr) return FailNull(__func__, "deviceId");
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  *deviceId = context->device;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  if (count == nullptr) return FailNull(__func__, "count");
  *count = static_cast<uint32_t>(Runtime::Get().device_count());
  const std::string& problem = twin::settings().problem;
  return problem.empty() ? ACL_SUCCESS : Fail(ACL_ERROR_RT_NO_DEVICE, __func__, problem);
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  if (runMode == nullptr) return FailNull(__func__, "runMode");
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void) { return SynchronizeAll(__func__, Signal::kNever); }

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  if (timeout < -1 || timeout == 0) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text("timeout is ", timeout, "; wanted -1 or milliseconds"));
  }
  return SynchronizeAll(__func__,
                        timeout < 0 ? Signal::kNever : Signal::Clock::now() + std::chrono::milliseconds(timeout));
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  Device* device = nullptr;
  TWIN_TRY(RequireDevice(__func__, deviceId, &device));
  const Signal::Clock::time_point deadline =
      timeout == 0 ? Signal::kNever : Signal::Clock::now() + std::chrono::milliseconds(timeout);
  bool all_ended = true;
  for (const auto& stream : Runtime::Get().StreamsOf(deviceId)) all_ended &= stream->Abort(deadline);
  if (all_ended) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, __func__,
              Text("a task of device ", deviceId, " did not finish within ", timeout, " ms"));
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  if (canAccessPeer == nullptr) return FailNull(__func__, "canAccessPeer");
  Device* device = nullptr;
  TWIN_TRY(RequireDevice(__func__, deviceId, &device));
  TWIN_TRY(RequireDevice(__func__, peerDeviceId, &device));
  if (deviceId == peerDeviceId) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__,
                Text("both devices are ", deviceId, "; wanted two different ones"));
  }
  *canAccessPeer = 1;
  return ACL_SUCCESS;
}

namespace {

aclError ChangePeer(const char* function, int32_t peer, bool enable) {
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(function, &context));
  Device* device = nullptr;
  TWIN_TRY(RequireDevice(function, peer, &device));
  if (peer == context->device) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
                Text("device ", peer, " is this thread's current device; wanted another"));
  }
  Device* own = Runtime::Get().device(context->device);
  std::lock_guard lock(own->mutex);
  if (enable) {
    own->peers.insert(peer);
  } else {
    own->peers.erase(peer);
  }
  return ACL_SUCCESS;
}

}  // namespace

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  if (flags != 0) return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, Text("flags is ", flags, "; wanted 0"));
  return ChangePeer(__func__, peerDeviceId, true);
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) { return ChangePeer(__func__, peerDeviceId, false); }

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  if (pid == nullptr) return FailNull(__func__, "pid");
  *pid = getpid();
  return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  if (value == nullptr) return FailNull(__func__, "value");
  Device* device = nullptr;
  TWIN_TRY(RequireDevice(__func__, static_cast<int32_t>(deviceId), &device));
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = twin::kCubeCores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = twin::kVectorCores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = twin::kL2Bytes;
      return ACL_SUCCESS;
    default:
      break;
  }
  return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown device property ", static_cast<int>(deviceInfo)));
}
