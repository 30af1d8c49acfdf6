#include "core/comm/hccl_call.h"

#include <cstddef>
#include <iterator>

#include "acl/acl.h"

namespace trireme {
namespace {

constexpr const char* kNames[] = {"HCCL_SUCCESS",
                                  "HCCL_E_PARA",
                                  "HCCL_E_PTR",
                                  "HCCL_E_MEMORY",
                                  "HCCL_E_INTERNAL",
                                  "HCCL_E_NOT_SUPPORT",
                                  "HCCL_E_NOT_FOUND",
                                  "HCCL_E_UNAVAIL",
                                  "HCCL_E_SYSCALL",
                                  "HCCL_E_TIMEOUT",
                                  "HCCL_E_OPEN_FILE_FAILURE",
                                  "HCCL_E_TCP_CONNECT",
                                  "HCCL_E_ROCE_CONNECT",
                                  "HCCL_E_TCP_TRANSFER",
                                  "HCCL_E_ROCE_TRANSFER",
                                  "HCCL_E_RUNTIME",
                                  "HCCL_E_DRV",
                                  "HCCL_E_PROFILING",
                                  "HCCL_E_CCE",
                                  "HCCL_E_NETWORK",
                                  "HCCL_E_AGAIN",
                                  "HCCL_E_REMOTE"};

const char* Advice(HcclResult code) {
  switch (code) {
    case HCCL_E_MEMORY:
      return "; each group takes twice its buffer size of device memory: lower comm.buffer_mb or use fewer "
             "groups (`trireme check` shows the sum)";
    case HCCL_E_TIMEOUT:
      return "; a rank arrived too late or never: look for the first error of another rank, or raise "
             "HCCL_CONNECT_TIMEOUT or HCCL_EXEC_TIMEOUT";
    case HCCL_E_TCP_CONNECT:
      return "; choose the network interface with HCCL_SOCKET_IFNAME or HCCL_IF_IP";
    default:
      return "";
  }
}

}  // namespace

std::string HcclErrorName(HcclResult code) {
  const auto index = static_cast<size_t>(code);
  return Concat(index < std::size(kNames) ? kNames[index] : "unknown HCCL code", " ", index);
}

bool IsRemoteFailure(HcclResult code) { return code == HCCL_E_REMOTE || code == HCCL_E_TIMEOUT; }

void ThrowHcclError(HcclResult code, const char* function, const std::string& details) {
  std::string text = Concat(function, details.empty() ? "" : ": ", details, ": ", HcclErrorName(code));
  const char* recent = aclGetRecentErrMsg();
  if (recent != nullptr && *recent != '\0') text += Concat(": ", recent);
  throw Error(IsRemoteFailure(code) ? ErrorKind::kRemote : ErrorKind::kRuntime, text + Advice(code));
}

}  // namespace trireme
