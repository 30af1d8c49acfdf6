// Errors, one way for each kind. Bad input, a failing device or a failing peer: `throw InputError(...)` or
// one of its siblings; only main catches. A bug in Trireme: TRIREME_CHECK, which prints a trace and aborts.
// Vendor codes are converted next to the calls that return them, not here.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace trireme {

enum class ErrorKind {
  kInput,    // the user's input or configuration is wrong: one line, exit status 2
  kRuntime,  // something failed here while running: exit status 1
  kRemote,   // a peer failed and this rank with it: exit status 1, reported after the peer's own message
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_status() const { return kind_ == ErrorKind::kInput ? 2 : 1; }

 private:
  ErrorKind kind_;
};

// The arguments, printed one after another: std::format is missing in GCC 12.
template <typename... Args>
std::string Concat(const Args&... args) {
  std::ostringstream text;
  text << std::boolalpha;
  (text << ... << args);
  return text.str();
}

template <typename... Args>
Error InputError(const Args&... args) {
  return Error(ErrorKind::kInput, Concat(args...));
}

template <typename... Args>
Error RuntimeError(const Args&... args) {
  return Error(ErrorKind::kRuntime, Concat(args...));
}

template <typename... Args>
Error RemoteError(const Args&... args) {
  return Error(ErrorKind::kRemote, Concat(args...));
}

// Collects the message of a failed check; its destructor prints it with a trace and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* expression, const char* file, int line);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Makes both branches of the check's conditional void; & binds looser than <<.
struct CheckVoid {
  void operator&(std::ostream&) const {}
};

}  // namespace trireme

// TRIREME_CHECK(offset < size) << "offset " << offset << ", size " << size;
#define TRIREME_CHECK(...)                               \
  __builtin_expect(static_cast<bool>(__VA_ARGS__), true) \
      ? (void)0                                          \
      : ::trireme::CheckVoid() & ::trireme::CheckFailure(#__VA_ARGS__, __FILE__, __LINE__).stream()
