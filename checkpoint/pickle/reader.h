// Pickle: reads the values of a Python pickle, protocols 2 to 5, without executing any of it. Refuses every class that
// is not in known_classes.h and every opcode that training checkpoints do not need. Memory is bounded: a value costs at
// least a byte of the file, their number has a limit, and nothing recurses.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>

#include "checkpoint/pickle/value.h"

namespace trireme {

class Pickle {
 public:
  // `where` is the file, for messages.
  Pickle(std::span<const std::byte> bytes, const std::string& where);
  Pickle(Pickle&&) = default;

  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  PickleValue* root_ = nullptr;
};

}  // namespace trireme
