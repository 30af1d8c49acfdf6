#include "ops/npu_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "core/base/error.h"

namespace trireme::npu {

torch::jit::Stack Call(const char* name, torch::jit::Stack arguments) {
  const c10::OperatorHandle found = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  // Later versions of torch_npu append arguments with defaults to those of 2.7.1.
  const std::vector<c10::Argument>& wanted = found.schema().arguments();
  for (size_t i = arguments.size(); i < wanted.size(); ++i) {
    TRIREME_CHECK(wanted[i].default_value().has_value())
        << name << " of this torch_npu requires " << wanted[i].name() << ", which is not known here";
    arguments.push_back(*wanted[i].default_value());
  }
  found.callBoxed(arguments);
  return arguments;
}

}  // namespace trireme::npu
