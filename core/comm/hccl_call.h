// Turns an HCCL code into an exception: HcclCall(HcclX(...), "HcclX", details...). The details are
// formatted only if the call failed.
#pragma once

#include <string>

#include "core/base/error.h"
#include "hccl/hccl.h"

namespace trireme {

// "HCCL_E_REMOTE 21".
std::string HcclErrorName(HcclResult code);

// A code meaning that a peer failed or never arrived, so that this rank is not the cause.
bool IsRemoteFailure(HcclResult code);

// Throws trireme::Error with what was called, the code and its name, the library's own text, and what to do.
[[noreturn]] void ThrowHcclError(HcclResult code, const char* function, const std::string& details);

template <typename... Details>
void HcclCall(HcclResult code, const char* function, const Details&... details) {
  if (code != HCCL_SUCCESS) [[unlikely]]
    ThrowHcclError(code, function, Concat("", details...));
}

}  // namespace trireme
