#include "checkpoint/megatron/run_arguments.h"

#include <utility>

namespace trireme {

using Kind = PickleValue::Kind;

RunArguments::RunArguments(std::shared_ptr<const TorchFile> file, const PickleValue& arguments)
    : file_(std::move(file)), values_(arguments.is(Kind::kDict) ? &arguments : arguments.state) {}

const PickleValue* RunArguments::Find(const std::string& name) const {
  return values_ == nullptr ? nullptr : values_->Get(name);
}

std::optional<int64_t> RunArguments::Integer(const std::string& name) const {
  const PickleValue* value = Find(name);
  if (value == nullptr || !value->is(Kind::kInt)) return std::nullopt;
  return value->integer;
}

bool RunArguments::IsTrue(const std::string& name) const {
  const PickleValue* value = Find(name);
  return value != nullptr && value->is(Kind::kBool) && value->integer != 0;
}

std::string RunArguments::Text(const std::string& name) const {
  const PickleValue* value = Find(name);
  return value != nullptr && value->is(Kind::kText) ? value->text : "";
}

}  // namespace trireme
