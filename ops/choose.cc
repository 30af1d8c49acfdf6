#include "ops/choose.h"

#include <utility>

#include "core/base/error.h"
#include "ops/kernel_place.h"
#include "ops/switches.h"

namespace trireme {
namespace {

thread_local bool reference_only = false;
thread_local bool kernels_first = false;

std::string WhyNoLoops(const at::Tensor& tensor, const Against& against) {
  if (kernels_first) return "kernels come first here";
  if (!tensor.device().is_cpu()) return "loops are for the cpu";
  const auto type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16) return "loops compute fp32 and bf16 only";
  return against.loops;
}

std::string WhyNoVendor(const at::Tensor& tensor, const Against& against) {
  if (kernels_first) return "kernels come first here";
  if (!tensor.is_privateuseone()) return "torch_npu is for the npu";
  return against.vendor ? "" : "torch_npu has no such operator";
}

std::string WhyNot(Version version, const at::Tensor& tensor, const Against& against) {
  switch (version) {
    case Version::kLoops:
      return WhyNoLoops(tensor, against);
    case Version::kVendor:
      return WhyNoVendor(tensor, against);
    case Version::kKernel: {
      if (!kernels_first && !against.aten.empty()) return against.aten;
      const std::string why = WhyNoKernel(tensor);
      return why.empty() ? against.kernel : why;
    }
    case Version::kReference:
      break;
  }
  return "";
}

}  // namespace

const char* NameOf(Version version) {
  constexpr const char* kNames[] = {"cpu", "torch_npu", "ascendc", "aten"};
  return kNames[static_cast<int>(version)];
}

Choice Choose(const std::string& op, const at::Tensor& tensor, const Against& against) {
  Choice choice;
  const bool off = OperatorIsOff(op);
  for (const Version version : {Version::kLoops, Version::kVendor, Version::kKernel}) {
    const std::string why = off              ? "turned off by ops.off"
                            : reference_only ? "the reference is asked for"
                                             : WhyNot(version, tensor, against);
    if (why.empty()) {
      choice.version = version;
      return choice;
    }
    choice.declined.push_back({version, why});
  }
  return choice;
}

bool FastOnCpu(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return !OnlyReference() && tensor.device().is_cpu() && (type == at::kFloat || type == at::kBFloat16);
}

bool OnlyReference() { return reference_only; }

ReferenceOnly::ReferenceOnly() : outer_(std::exchange(reference_only, true)) {}
ReferenceOnly::~ReferenceOnly() { reference_only = outer_; }
KernelsFirst::KernelsFirst() : outer_(std::exchange(kernels_first, true)) {}
KernelsFirst::~KernelsFirst() { kernels_first = outer_; }

}  // namespace trireme
