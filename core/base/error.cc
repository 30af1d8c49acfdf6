// What a failed TRIREME_CHECK prints. The trace names functions only where the program exports its symbols.
#include "core/base/error.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "core/base/log.h"

namespace trireme {
namespace {

using CString = std::unique_ptr<char, decltype(&std::free)>;

// backtrace_symbols returns "program(mangled+0x12) [0x...]"; only the part in parentheses needs demangling.
std::string ReadableFrame(const std::string& frame) {
  const size_t open = frame.find('(');
  const size_t plus = frame.find('+', open);
  if (open == std::string::npos || plus == std::string::npos) return frame;
  int status = 0;
  const std::string mangled = frame.substr(open + 1, plus - open - 1);
  const CString name(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? frame.substr(0, open + 1) + name.get() + frame.substr(plus) : frame;
}

std::string Trace() {
  std::array<void*, 64> frames;
  const int depth = backtrace(frames.data(), frames.size());
  const std::unique_ptr<char*, decltype(&std::free)> names(backtrace_symbols(frames.data(), depth), &std::free);
  if (!names) return "";
  std::string trace;
  for (int i = 0; i < depth; ++i) trace += Concat("    ", ReadableFrame(names.get()[i]), "\n");
  return trace;
}

}  // namespace

CheckFailure::CheckFailure(const char* expression, const char* file, int line) {
  message_ << LogRankPrefix() << "check failed: " << expression << " (" << file << ":" << line << ") ";
}

CheckFailure::~CheckFailure() {
  // One write, so that the reports of several ranks do not mix.
  const std::string report = Concat(message_.str(), "\n", Trace());
  const ssize_t written = write(STDERR_FILENO, report.data(), report.size());
  static_cast<void>(written);
  std::abort();
}

}  // namespace trireme
