#include "ops/choose.h"

#include <utility>

namespace trireme {
namespace {

thread_local bool reference_only = false;

}  // namespace

bool FastOnCpu(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return !OnlyReference() && tensor.device().is_cpu() && (type == at::kFloat || type == at::kBFloat16);
}

bool OnlyReference() { return reference_only; }

ReferenceOnly::ReferenceOnly() : outer_(std::exchange(reference_only, true)) {}
ReferenceOnly::~ReferenceOnly() { reference_only = outer_; }

}  // namespace trireme
