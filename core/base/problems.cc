#include "core/base/problems.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace trireme {

InputErrors::InputErrors(std::vector<std::string> lines)
    : Error(ErrorKind::kInput, Join(lines, "\n")), lines_(std::move(lines)) {}

void Problems::Add(const std::string& problem) {
  if (std::find(lines_.begin(), lines_.end(), problem) == lines_.end()) lines_.push_back(problem);
}

void Problems::Add(const Error& error) {
  if (error.kind() != ErrorKind::kInput) throw Error(error);
  if (const auto* several = dynamic_cast<const InputErrors*>(&error)) {
    for (const std::string& line : several->lines()) Add(line);
  } else {
    Add(std::string(error.what()));
  }
}

void Problems::ThrowIfAny() const {
  if (lines_.size() == 1) throw InputError(lines_.front());
  if (!lines_.empty()) throw InputErrors(lines_);
}

}  // namespace trireme
