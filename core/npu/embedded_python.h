// A Python interpreter inside this process, for one purpose: the torch_npu wheel is a Python package, and its
// libraries work only after it has been imported. Nothing else in Trireme runs in Python. libpython is opened
// on demand, so that programs which do not compute on an npu never need it.
#pragma once

#include <string>

namespace trireme {

class EmbeddedPython {
 public:
  // Starts the interpreter that belongs to the torch whose libtorch_cpu this process uses. Once per process;
  // it lives as long as the process.
  EmbeddedPython();

  // Runs `code` with `result` as its output variable, and returns its text. An exception becomes an
  // InputError with its last line. Other threads may use Python between two calls.
  std::string Run(const std::string& code) const;

  // The text as a Python literal.
  static std::string Quote(const std::string& text);

 private:
  void* library_;
};

}  // namespace trireme
