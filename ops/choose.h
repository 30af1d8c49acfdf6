// Which implementation of an operator runs. An operator has a list of them, fastest first, the reference
// last; each states why it declines a case, and the first that does not decline runs. The list is the only
// source: `check --ops`, `bench ops`, ops.off, help and docs/kernels.md are generated from it (operator.h).
// Knows no operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace trireme {

struct NoBackward {};  // for operators whose backward pass is a separate call, or autograd's

template <typename Case, typename Forward, typename Backward = NoBackward>
struct Implementation {
  const char* name;                     // cpu, torch_npu, ascendc, aten
  std::string (*why_not)(const Case&);  // empty: it supports the case; nullptr: the reference, always
  Forward forward;
  Backward backward = {};
};

struct Declined {
  std::string implementation, why;
};

// What `check --ops` shows of one case.
struct CaseReport {
  std::string shape;
  std::string chosen;
  std::vector<Declined> declined;  // the ones before it, in order
};

// Why an implementation is not considered: its operator is turned off, or another one is requested by name.
// `wanted_is_listed`: whether the operator has the requested one.
std::string WhyPassedOver(const char* op, const char* implementation, bool wanted_is_listed);
// The name that an OnlyImplementation requests; nullptr: none is alive.
const char* WantedImplementation();
void NoteChoice(const char* op, const char* implementation);

template <typename Case, typename Forward, typename Backward = NoBackward>
class ImplementationList {
 public:
  using Entry = Implementation<Case, Forward, Backward>;

  ImplementationList(const char* op, std::vector<Entry> entries) : op_(op), entries_(std::move(entries)) {
    TRIREME_CHECK(!entries_.empty() && entries_.back().why_not == nullptr) << op << " has no reference";
  }

  // The implementation that runs.
  const Entry& Choose(const Case& given) const {
    const Entry& entry = Pick(given, nullptr);
    NoteChoice(op_, entry.name);
    return entry;
  }

  CaseReport Report(std::string shape, const Case& given) const {
    CaseReport report{std::move(shape), "", {}};
    report.chosen = Pick(given, &report.declined).name;
    return report;
  }

  // For a backward pass that must run the implementation of the forward pass.
  int64_t IndexOf(const Entry& entry) const { return &entry - entries_.data(); }
  const Entry& operator[](int64_t index) const { return entries_.at(static_cast<size_t>(index)); }

  const char* op() const { return op_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.emplace_back(entry.name);
    return names;
  }

 private:
  bool Has(const char* name) const {
    for (const Entry& entry : entries_) {
      if (name != nullptr && std::string_view(entry.name) == name) return true;
    }
    return false;
  }

  const Entry& Pick(const Case& given, std::vector<Declined>* declined) const {
    const bool wanted_is_listed = Has(WantedImplementation());
    for (const Entry& entry : entries_) {
      if (entry.why_not == nullptr) return entry;
      std::string why = WhyPassedOver(op_, entry.name, wanted_is_listed);
      if (why.empty()) why = entry.why_not(given);
      if (why.empty()) return entry;
      if (declined != nullptr) declined->push_back({entry.name, std::move(why)});
    }
    return entries_.back();
  }

  const char* op_;
  std::vector<Entry> entries_;
};

// Reasons that many implementations share; empty: none.
std::string WhyNoLoops(const at::Tensor& tensor);   // of cpu.cc: CPU memory of fp32 or bf16
std::string WhyNoVendor(const at::Tensor& tensor);  // torch_npu's: an npu's memory
// Whether the weight can be read like the input: same dtype, contiguous.
std::string WhyNotAlike(const at::Tensor& input, const at::Tensor& weight);
// The first reason that is not empty.
inline std::string Either(std::string first, std::string second) {
  return first.empty() ? std::move(second) : std::move(first);
}

// While it lives, operators called on this thread use the implementation of this name if it supports the
// case, otherwise the reference; operators without an implementation of this name choose as usual. For tests
// and measurements.
class OnlyImplementation {
 public:
  explicit OnlyImplementation(std::string name);
  ~OnlyImplementation();
  OnlyImplementation(const OnlyImplementation&) = delete;
  OnlyImplementation& operator=(const OnlyImplementation&) = delete;

 private:
  std::string name_;
  const char* outer_;
};

struct ReferenceOnly : OnlyImplementation {
  ReferenceOnly() : OnlyImplementation("aten") {}
};
struct KernelsFirst : OnlyImplementation {
  KernelsFirst() : OnlyImplementation("ascendc") {}
};
bool KernelsAreWanted();  // even if another implementation was measured faster

// While it lives, records what operators called on this thread chose: operator and implementation, in order.
class ChoiceRecord {
 public:
  ChoiceRecord();
  ~ChoiceRecord();
  ChoiceRecord(const ChoiceRecord&) = delete;
  ChoiceRecord& operator=(const ChoiceRecord&) = delete;

  // The first choice of the operator; empty: it was not called.
  std::string ChosenFor(const std::string& op) const;

 private:
  friend void NoteChoice(const char* op, const char* implementation);
  std::vector<std::pair<std::string, std::string>> choices_;
  ChoiceRecord* outer_;
};

}  // namespace trireme
