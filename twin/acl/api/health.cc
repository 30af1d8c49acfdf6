// Overflow, saturation, utilisation, cache and ECC calls. Where the host lacks the hardware, they answer
// truthfully (no overflow was seen) or report that the call is not supported.
#include <cstring>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/place.h"
#include "twin/acl/runtime/runtime.h"

using twin::Fail;
using twin::FailNull;
using twin::Runtime;
using twin::Stream;
using twin::Text;

namespace {

aclError RequireKnownDevice(const char* function, int32_t id) {
  if (Runtime::Get().device(id) != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_INVALID_DEVICEID, function, Text("no device ", id));
}

aclError RequireDeviceMemory(const char* function, const void* pointer, size_t bytes) {
  if (pointer == nullptr) return FailNull(function, "the address");
  const twin::Location location = twin::Locate(pointer, bytes);
  if (location.on_device() && bytes > 0) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text(pointer, " with ", bytes, " bytes is ", location.text(), "; wanted device memory"));
}

}  // namespace

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  if (mode < ACL_RT_OVERFLOW_MODE_SATURATION || mode >= ACL_RT_OVERFLOW_MODE_UNDEF) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown mode ", static_cast<int>(mode)));
  }
  if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) return ACL_SUCCESS;
  return twin::FailUnsupported(__func__, "arithmetic on the host yields infinities and NaN and does not saturate");
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  if (flag > 1) return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("flag is ", flag, "; wanted 0 or 1"));
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  found->overflow_switch = flag;
  return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  if (flag == nullptr) return FailNull(__func__, "flag");
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  *flag = found->overflow_switch;
  return ACL_SUCCESS;
}

// The host does not track overflow: the status is always clear.
aclError aclrtGetOverflowStatus(void* outputAddr, size_t outputSize, aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  TWIN_TRY(RequireDeviceMemory(__func__, outputAddr, outputSize));
  return found->Enqueue(
      [outputAddr, outputSize] {
        std::memset(outputAddr, 0, outputSize);
        return ACL_SUCCESS;
      },
      __func__);
}

aclError aclrtResetOverflowStatus(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  return found->Enqueue([] { return ACL_SUCCESS; }, __func__);
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
  if (utilizationInfo == nullptr) return FailNull(__func__, "utilizationInfo");
  TWIN_TRY(RequireKnownDevice(__func__, deviceId));
  const twin::DeviceMemory& memory = Runtime::Get().device(deviceId)->memory;
  utilizationInfo->cubeUtilization = DEVICE_UTILIZATION_NOT_SUPPORT;
  utilizationInfo->vectorUtilization = DEVICE_UTILIZATION_NOT_SUPPORT;
  utilizationInfo->aicpuUtilization = DEVICE_UTILIZATION_NOT_SUPPORT;
  utilizationInfo->memoryUtilization = static_cast<int32_t>(memory.used() * 100.0 / memory.capacity());
  utilizationInfo->utilizationExtend = nullptr;
  return ACL_SUCCESS;
}

// Prefetches into a cache that the host does not have: queued in stream order, without effect.
aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream stream) {
  if (cmoType != ACL_RT_CMO_TYPE_PREFETCH) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown type ", static_cast<int>(cmoType)));
  }
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  TWIN_TRY(RequireDeviceMemory(__func__, src, size));
  return found->Enqueue([] { return ACL_SUCCESS; }, __func__);
}

// The host's caches are coherent.
aclError aclrtMemFlush(void* devPtr, size_t size) { return RequireDeviceMemory(__func__, devPtr, size); }
aclError aclrtMemInvalidate(void* devPtr, size_t size) { return RequireDeviceMemory(__func__, devPtr, size); }

aclError aclrtSetTsDevice(aclrtTsId tsId) {
  if (tsId == ACL_TS_ID_AICORE) return ACL_SUCCESS;
  if (tsId == ACL_TS_ID_AIVECTOR) return twin::FailUnsupported(__func__, "each device has one task scheduler");
  return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown task scheduler ", static_cast<int>(tsId)));
}

aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize, size_t* retSize) {
  if (memUceInfoArray == nullptr) return FailNull(__func__, "memUceInfoArray");
  if (retSize == nullptr) return FailNull(__func__, "retSize");
  if (arraySize == 0) return Fail(ACL_ERROR_INVALID_PARAM, __func__, "arraySize is 0; wanted room for one entry");
  TWIN_TRY(RequireKnownDevice(__func__, deviceId));
  *retSize = 0;
  return ACL_SUCCESS;
}

aclError aclrtMemUceRepair(int32_t, aclrtMemUceInfo*, size_t) {
  return twin::FailUnsupported(__func__, "there is no memory to repair");
}
