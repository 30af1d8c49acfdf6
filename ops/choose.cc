#include "ops/choose.h"

#include <utility>

namespace trireme {
namespace {

thread_local bool reference_only = false;

}  // namespace

bool FastOnCpu(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return !reference_only && tensor.device().is_cpu() && (type == at::kFloat || type == at::kBFloat16);
}

ReferenceOnly::ReferenceOnly() : outer_(std::exchange(reference_only, true)) {}
ReferenceOnly::~ReferenceOnly() { reference_only = outer_; }

}  // namespace trireme
