// Problems: all that is wrong with an input, so that a user mends everything at once instead of one error a
// start. Only what the input is to blame for is collected; other errors pass through.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace trireme {

// Several input errors as one; each is a line of its own where they are shown.
class InputErrors : public Error {
 public:
  explicit InputErrors(std::vector<std::string> lines);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

class Problems {
 public:
  // One that was found before is not said twice.
  void Add(const std::string& problem);
  // All lines of an error that is the input's fault; throws others again.
  void Add(const Error& error);

  // Does the work; an input error is kept, and what comes after it is done all the same.
  template <typename Work>
  void Try(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      Add(error);
    }
  }

  bool empty() const { return lines_.empty(); }
  // One: as it was thrown. Several: all of them, as InputErrors.
  void ThrowIfAny() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace trireme
