// Time limits, core limits of devices, streams and threads, core groups. The twin stores and checks what a
// program sets; kernels on the host run at the same speed regardless.
#include "twin/acl/runtime/limits.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

struct tagRtGroupInfo {
  int32_t group_id = 0;
};

namespace twin {
namespace {

aclError RequireKind(const char* function, aclrtDevResModelType type) {
  if (type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE) return ACL_SUCCESS;
  return Fail(ACL_ERROR_INVALID_PARAM, function, Text("unknown core type ", static_cast<int>(type)));
}

uint32_t& Pick(CoreLimits& limits, aclrtDevResModelType type) {
  return type == ACL_RT_DEV_RES_CUBE_CORE ? limits.cube : limits.vector;
}

aclError RequireValue(const char* function, aclrtDevResModelType type, uint32_t value) {
  TWIN_TRY(RequireKind(function, type));
  const uint32_t most = type == ACL_RT_DEV_RES_CUBE_CORE ? kCubeCores : kVectorCores;
  if (value >= 1 && value <= most) return ACL_SUCCESS;
  return Fail(ACL_ERROR_INVALID_PARAM, function, Text("value is ", value, "; wanted 1 to ", most, " cores"));
}

aclError RequireDeviceOfLimit(const char* function, int32_t id, Device** device) {
  *device = Runtime::Get().device(id);
  if (*device != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_INVALID_DEVICEID, function, Text("no device ", id));
}

CoreLimits DeviceLimits(int id) {
  Device* device = Runtime::Get().device(id);
  std::lock_guard lock(device->mutex);
  return device->core_limits;
}

// Limits of streams that have their own, by stream id; ids are never reused.
struct StreamLimits {
  std::mutex mutex;
  std::map<int32_t, CoreLimits> by_id;
};

StreamLimits& stream_limits() {
  static auto* all = new StreamLimits;
  return *all;
}

CoreLimits LimitsOf(const Stream& stream) {
  StreamLimits& all = stream_limits();
  std::lock_guard lock(all.mutex);
  const auto found = all.by_id.find(stream.id());
  return found == all.by_id.end() ? DeviceLimits(stream.device()) : found->second;
}

// The stream whose limits the thread uses; empty: the device's.
std::weak_ptr<Stream>& ThreadStream() {
  thread_local std::weak_ptr<Stream> stream;
  return stream;
}

}  // namespace
}  // namespace twin

using twin::CoreLimits;
using twin::Device;
using twin::Fail;
using twin::FailNull;
using twin::Stream;
using twin::Text;

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  twin::op_wait_timeout_s = timeout;
  return ACL_SUCCESS;
}

// A host thread cannot be stopped from outside, so a long-running kernel is not terminated; the value is only
// accepted.
aclError aclrtSetOpExecuteTimeOut(uint32_t) { return ACL_SUCCESS; }

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResModelType type, uint32_t* value) {
  if (value == nullptr) return FailNull(__func__, "value");
  TWIN_TRY(twin::RequireKind(__func__, type));
  Device* device = nullptr;
  TWIN_TRY(twin::RequireDeviceOfLimit(__func__, deviceId, &device));
  CoreLimits limits = twin::DeviceLimits(deviceId);
  *value = twin::Pick(limits, type);
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResModelType type, uint32_t value) {
  TWIN_TRY(twin::RequireValue(__func__, type, value));
  Device* device = nullptr;
  TWIN_TRY(twin::RequireDeviceOfLimit(__func__, deviceId, &device));
  std::lock_guard lock(device->mutex);
  twin::Pick(device->core_limits, type) = value;
  return ACL_SUCCESS;
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  Device* device = nullptr;
  TWIN_TRY(twin::RequireDeviceOfLimit(__func__, deviceId, &device));
  std::lock_guard lock(device->mutex);
  device->core_limits = {twin::kCubeCores, twin::kVectorCores};
  return ACL_SUCCESS;
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResModelType type, uint32_t value) {
  TWIN_TRY(twin::RequireValue(__func__, type, value));
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  CoreLimits limits = twin::LimitsOf(*found);
  twin::Pick(limits, type) = value;
  twin::StreamLimits& all = twin::stream_limits();
  std::lock_guard lock(all.mutex);
  all.by_id[found->id()] = limits;
  return ACL_SUCCESS;
}

aclError aclrtResetStreamResLimit(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  twin::StreamLimits& all = twin::stream_limits();
  std::lock_guard lock(all.mutex);
  all.by_id.erase(found->id());
  return ACL_SUCCESS;
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResModelType type, uint32_t* value) {
  if (value == nullptr) return FailNull(__func__, "value");
  TWIN_TRY(twin::RequireKind(__func__, type));
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  CoreLimits limits = twin::LimitsOf(*found);
  *value = twin::Pick(limits, type);
  return ACL_SUCCESS;
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  twin::ThreadStream() = found;
  return ACL_SUCCESS;
}

aclError aclrtUnuseStreamResInCurrentThread() {
  twin::ThreadStream().reset();
  return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResModelType type, uint32_t* value) {
  if (value == nullptr) return FailNull(__func__, "value");
  TWIN_TRY(twin::RequireKind(__func__, type));
  std::shared_ptr<twin::Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  const std::shared_ptr<Stream> stream = twin::ThreadStream().lock();
  CoreLimits limits = stream == nullptr ? twin::DeviceLimits(context->device) : twin::LimitsOf(*stream);
  *value = twin::Pick(limits, type);
  return ACL_SUCCESS;
}

// Core groups: each device has one group, number 0.

aclError aclrtSetGroup(int32_t groupId) {
  if (groupId == 0) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_GROUP_NOT_CREATE, __func__, Text("no group ", groupId, "; wanted 0"));
}

aclError aclrtGetGroupCount(uint32_t* count) {
  if (count == nullptr) return FailNull(__func__, "count");
  *count = 1;
  return ACL_SUCCESS;
}

aclrtGroupInfo* aclrtCreateGroupInfo() { return std::make_unique<aclrtGroupInfo>().release(); }

aclError aclrtDestroyGroupInfo(aclrtGroupInfo* groupInfo) {
  if (groupInfo == nullptr) return FailNull(__func__, "groupInfo");
  std::unique_ptr<aclrtGroupInfo> owned(groupInfo);
  return ACL_SUCCESS;
}

aclError aclrtGetAllGroupInfo(aclrtGroupInfo* groupInfo) {
  if (groupInfo == nullptr) return FailNull(__func__, "groupInfo");
  *groupInfo = {};
  return ACL_SUCCESS;
}

aclError aclrtGetGroupInfoDetail(const aclrtGroupInfo* groupInfo, int32_t groupIndex, aclrtGroupAttr attr,
                                 void* attrValue, size_t valueLen, size_t* paramRetSize) {
  if (groupInfo == nullptr) return FailNull(__func__, "groupInfo");
  if (attrValue == nullptr) return FailNull(__func__, "attrValue");
  if (paramRetSize == nullptr) return FailNull(__func__, "paramRetSize");
  constexpr uint32_t kValues[] = {twin::kCubeCores, twin::kVectorCores, twin::kCubeCores, 0, 0, 0};
  if (groupIndex != 0 || attr < ACL_GROUP_AICORE_INT || attr > ACL_GROUP_GROUPID_INT || valueLen < sizeof kValues[0]) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__,
                Text("groupIndex ", groupIndex, ", attr ", static_cast<int>(attr), ", valueLen ", valueLen,
                     "; wanted group 0, attr 0 to 5, room for 4 bytes"));
  }
  std::memcpy(attrValue, &kValues[attr], sizeof kValues[attr]);
  *paramRetSize = sizeof kValues[attr];
  return ACL_SUCCESS;
}
