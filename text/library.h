// For this folder only: the C interface's errors as exceptions, its buffers as strings.
#pragma once

#include <string>

#include "core/base/error.h"
#include "text/tokenizer_c.h"

namespace trireme {

// Does nothing if `error` is null.
inline void ThrowLibraryError(char* error, const std::string& what) {
  if (error == nullptr) return;
  const std::string why = error;
  trireme_error_free(error);
  throw InputError(what, why);
}

inline std::string TakeText(TriremeText& raw) {
  std::string text(raw.data, raw.size);
  trireme_text_free(&raw);
  return text;
}

}  // namespace trireme
