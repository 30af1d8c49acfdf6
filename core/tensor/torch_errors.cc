#include "core/tensor/torch_errors.h"

#include <c10/util/Exception.h>

#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

// The message without the source locations and stack traces that follow it.
std::string FirstLine(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

// torch's and torch_npu's messages state the figures, then advice for Python programs.
std::string OutOfMemory(const std::string& line, int64_t planned) {
  std::string figures = line.substr(0, line.find(" If reserved "));
  if (figures.ends_with('.')) figures.pop_back();
  return Concat("not enough device memory: ", figures,
                ". Set memory.recompute to full, lower run.micro_batch or data.max_length, raise parallel.zero, or "
                "split the model over more ranks (parallel.tensor, parallel.pipeline); ",
                planned == 0 ? "`trireme train --dry-run` shows the memory per rank"
                             : Concat("the plan of this rank was ", planned >> 20,
                                      " MiB, `trireme train --dry-run` shows its parts"));
}

}  // namespace

void WithTorchErrors(const std::function<void()>& work, int64_t planned) {
  try {
    work();
  } catch (const c10::Error& error) {
    const std::string line = FirstLine(error);
    if (line.find("out of memory") != std::string::npos) throw RuntimeError(OutOfMemory(line, planned));
    throw RuntimeError(line);
  }
}

}  // namespace trireme
