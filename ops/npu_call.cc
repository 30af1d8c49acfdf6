#include "ops/npu_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace trireme::npu {

torch::jit::Stack Call(const char* name, torch::jit::Stack arguments) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(arguments);
  return arguments;
}

}  // namespace trireme::npu
