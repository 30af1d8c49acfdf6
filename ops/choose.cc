#include "ops/choose.h"

#include <string_view>

#include "ops/switches.h"

namespace trireme {
namespace {

thread_local const char* wanted = nullptr;
thread_local ChoiceRecord* record = nullptr;

}  // namespace

std::string WhyPassedOver(const char* op, const char* implementation, bool wanted_is_listed) {
  if (OperatorIsOff(op)) return "turned off by ops.off";
  if (!wanted_is_listed || std::string_view(implementation) == wanted) return "";
  return Concat(wanted, " is requested");
}

const char* WantedImplementation() { return wanted; }

bool KernelsAreWanted() { return wanted != nullptr && std::string_view(wanted) == "ascendc"; }

void NoteChoice(const char* op, const char* implementation) {
  if (record != nullptr) record->choices_.emplace_back(op, implementation);
}

std::string WhyNoLoops(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) return "loops run on the cpu only";
  const auto type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16) return "loops support fp32 and bf16 only";
  return "";
}

std::string WhyNoVendor(const at::Tensor& tensor) {
  return tensor.is_privateuseone() ? "" : "torch_npu runs on the npu only";
}

std::string WhyNotAlike(const at::Tensor& input, const at::Tensor& weight) {
  if (weight.scalar_type() != input.scalar_type()) {
    return Concat("the weight is ", c10::toString(weight.scalar_type()), ", the input ",
                  c10::toString(input.scalar_type()));
  }
  return weight.is_contiguous() ? "" : "the weight is strided";
}

OnlyImplementation::OnlyImplementation(std::string name)
    : name_(std::move(name)), outer_(std::exchange(wanted, name_.c_str())) {}
OnlyImplementation::~OnlyImplementation() { wanted = outer_; }

ChoiceRecord::ChoiceRecord() : outer_(std::exchange(record, this)) {}
ChoiceRecord::~ChoiceRecord() { record = outer_; }

std::string ChoiceRecord::ChosenFor(const std::string& op) const {
  for (const auto& [name, implementation] : choices_) {
    if (name == op) return implementation;
  }
  return "";
}

}  // namespace trireme
