#include "core/device/acl_call.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "acl/error_codes/rt_error_codes.h"

namespace trireme {
namespace {

struct KnownCode {
  aclError code;
  const char* name;
  const char* advice;  // what to do about it; empty if the name is enough
};

constexpr const char* kMoreMemory =
    "use a smaller run.micro_batch, more memory.recompute, or more ranks; on the twin TWIN_DEVICE_MEMORY_GB";
constexpr const char* kDeviceFault =
    "the device failed: check its log (npu-smi info and ~/ascend/log, nvidia-smi and dmesg)";

const KnownCode kKnownCodes[] = {
    {ACL_ERROR_INVALID_PARAM, "invalid parameter", ""},
    {ACL_ERROR_UNINITIALIZE, "ACL is not initialised", "create a Device first"},
    {ACL_ERROR_RT_PARAM_INVALID, "invalid parameter", ""},
    {ACL_ERROR_RT_INVALID_DEVICEID, "no such device", "see `trireme check` for the devices of this host"},
    {ACL_ERROR_RT_CONTEXT_NULL, "no device set on this thread", "call Device::MakeCurrent on this thread first"},
    {ACL_ERROR_RT_STREAM_CONTEXT, "stream of another context", ""},
    {ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event without a time stamp", "create it with EventKind::kTimed"},
    {ACL_ERROR_RT_INVALID_HANDLE, "invalid handle", ""},
    {ACL_ERROR_BAD_ALLOC, "out of memory", kMoreMemory},
    {ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not supported by this device", ""},
    {ACL_ERROR_RT_MEMORY_ALLOCATION, "memory allocation", kMoreMemory},
    {ACL_ERROR_RT_NO_DEVICE, "no device", "see `trireme check`, or build with TRIREME_CANN=twin"},
    {ACL_ERROR_RT_NO_STREAM_RESOURCE, "no more streams", ""},
    {ACL_ERROR_RT_AICORE_TIMEOUT, "a kernel ran too long", kDeviceFault},
    {ACL_ERROR_RT_AICORE_EXCEPTION, "a kernel failed", kDeviceFault},
    {ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, "a kernel failed", kDeviceFault},
    {ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "a peer failed", ""},
};

const KnownCode* FindCode(aclError code) {
  const auto* found = std::find_if(std::begin(kKnownCodes), std::end(kKnownCodes),
                                   [code](const KnownCode& known) { return known.code == code; });
  return found == std::end(kKnownCodes) ? nullptr : found;
}

std::string MemoryFigures() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total_bytes) != ACL_SUCCESS) return "";
  return Concat("; the device has ", free_bytes >> 20, " MiB free of ", total_bytes >> 20, " MiB");
}

}  // namespace

std::string AclErrorName(aclError code) {
  const KnownCode* known = FindCode(code);
  return known == nullptr ? Concat(code) : Concat(code, " (", known->name, ")");
}

void ThrowAclError(aclError code, const char* function, const std::string& details) {
  std::string text = Concat(function, details.empty() ? "" : ": ", details, ": ACL error ", AclErrorName(code));
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION || code == ACL_ERROR_BAD_ALLOC) text += MemoryFigures();
  const char* recent = aclGetRecentErrMsg();
  if (recent != nullptr && *recent != '\0') text += Concat(": ", recent);
  const KnownCode* known = FindCode(code);
  if (known != nullptr && *known->advice != '\0') text += Concat("; ", known->advice);
  throw Error(code == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR ? ErrorKind::kRemote : ErrorKind::kRuntime, text);
}

}  // namespace trireme
