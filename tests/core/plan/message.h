// The message of a refused call, for tests that compare whole error texts.
#pragma once

#include <string>

#include "core/base/error.h"

namespace trireme {

template <typename Call>
std::string Refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kInput ? error.what() : std::string("not an input error: ") + error.what();
  }
  return "no error";
}

}  // namespace trireme
