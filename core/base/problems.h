// Problems: collects everything wrong with an input, so that a user fixes it all at once instead of one error
// per run. Only input errors are collected; other errors pass through.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace trireme {

// Several input errors as one; each is printed on its own line.
class InputErrors : public Error {
 public:
  explicit InputErrors(std::vector<std::string> lines);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

class Problems {
 public:
  // Duplicates are reported once.
  void Add(const std::string& problem);
  // All lines of an input error; rethrows any other.
  void Add(const Error& error);

  // Runs the work; an input error is recorded, and execution continues.
  template <typename Work>
  void Try(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      Add(error);
    }
  }

  bool empty() const { return lines_.empty(); }
  // One: rethrown as it was. Several: all of them, as InputErrors.
  void ThrowIfAny() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace trireme
