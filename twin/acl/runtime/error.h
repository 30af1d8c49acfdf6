// Error reporting of the twin's ACL: every error goes through Fail, which stores the code for
// aclrtGetLastError and the message for aclGetRecentErrMsg. Does not decide which code is right.
#pragma once

#include <sstream>
#include <string>

#include "acl/acl.h"

// Returns from the enclosing function if `call` returns anything but ACL_SUCCESS.
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

// Reports "function: text" with the code for the calling thread and returns the code.
aclError Fail(aclError code, const char* function, const std::string& text);

// Takes the calling thread's messages so far: a stream's worker passes them to the thread that synchronises.
std::string TakeThreadErrors();

// Errors that many functions share.
aclError FailNull(const char* function, const char* argument);
aclError FailUnsupported(const char* function, const char* why);

}  // namespace twin
