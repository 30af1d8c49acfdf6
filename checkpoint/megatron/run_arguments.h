// RunArguments: the arguments of the run that saved a Megatron checkpoint, its `args`, by Megatron's names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/pickle/torch_file.h"

namespace trireme {

class RunArguments {
 public:
  // `arguments` is the Namespace in `file`, which is kept.
  RunArguments(std::shared_ptr<const TorchFile> file, const PickleValue& arguments);

  std::optional<int64_t> Integer(const std::string& name) const;  // nothing: not there, None, or no number
  int64_t Integer(const std::string& name, int64_t otherwise) const { return Integer(name).value_or(otherwise); }
  bool IsTrue(const std::string& name) const;
  std::string Text(const std::string& name) const;  // empty: not there, or no text

 private:
  const PickleValue* Find(const std::string& name) const;

  std::shared_ptr<const TorchFile> file_;
  const PickleValue* values_;  // a dict; nullptr: none
};

}  // namespace trireme
