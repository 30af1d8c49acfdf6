// Turns an ACL code into an exception: AclCall(aclrtX(...), "aclrtX", details...). The details are
// formatted only if the call failed.
#pragma once

#include <string>

#include "acl/acl.h"
#include "core/base/error.h"

namespace trireme {

// "207001 (memory allocation)"; a code without a name is printed as a number.
std::string AclErrorName(aclError code);

// Throws trireme::Error with the function, the code and its name, ACL's own text, and what to do.
[[noreturn]] void ThrowAclError(aclError code, const char* function, const std::string& details);

template <typename... Details>
void AclCall(aclError code, const char* function, const Details&... details) {
  if (code != ACL_SUCCESS) [[unlikely]]
    ThrowAclError(code, function, Concat("", details...));
}

}  // namespace trireme
