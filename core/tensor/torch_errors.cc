#include "core/tensor/torch_errors.h"

#include <c10/util/Exception.h>

#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

// The message without the sources' places and stacks that follow it.
std::string FirstLine(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

// torch_npu's has the figures, and then advice for Python programs.
std::string OutOfMemory(const std::string& line) {
  constexpr const char* kAdvice = " If reserved memory is";
  return Concat(
      "the device's memory is not enough: ", line.substr(0, line.find(kAdvice)),
      ". Set memory.recompute to full, lower run.micro_batch or data.max_length, raise parallel.zero, or "
      "split the model over more ranks (parallel.tensor, parallel.pipeline); `trireme train --dry-run` "
      "shows a rank's memory");
}

}  // namespace

void WithTorchErrors(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    const std::string line = FirstLine(error);
    if (line.find("out of memory") != std::string::npos) throw RuntimeError(OutOfMemory(line));
    throw RuntimeError(line);
  }
}

}  // namespace trireme
