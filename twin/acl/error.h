// Error reports of the twin's ACL: every refusal passes through Fail, which keeps the code for
// aclrtGetLastError and the words for aclGetRecentErrMsg. Decides nothing about which code is right.
#pragma once

#include <sstream>
#include <string>

#include "acl/acl.h"

// Returns from the function where `call` gives anything but ACL_SUCCESS.
#define TWIN_TRY(call)                                                           \
  do {                                                                           \
    if (const aclError twin_try_error = (call); twin_try_error != ACL_SUCCESS) { \
      return twin_try_error;                                                     \
    }                                                                            \
  } while (false)

namespace twin {

template <class... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Reports "function: text" with the code to the calling thread and returns the code.
aclError Fail(aclError code, const char* function, const std::string& text);

// The calling thread's words so far, taken away from it: a stream's worker hands them to who synchronises.
std::string TakeThreadErrors();

// Refusals that many functions share.
aclError FailNull(const char* function, const char* argument);
aclError FailUnsupported(const char* function, const char* why);

}  // namespace twin
