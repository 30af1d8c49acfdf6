// Which implementation of an operator runs. An operator has a list of them, fastest first, the reference
// last; each says why it does not take a case, and the first that does not decline runs. The list is the only
// truth: `check --ops`, `bench ops`, ops.off, help and docs/kernels.md are made from it (operator.h). Knows
// no operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace trireme {

struct NoBackward {};  // for operators whose backward pass is another call, or autograd's

template <typename Case, typename Forward, typename Backward = NoBackward>
struct Implementation {
  const char* name;                     // cpu, torch_npu, ascendc, aten
  std::string (*why_not)(const Case&);  // empty: it takes the case. nullptr: the reference, which takes all
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
  std::vector<Declined> declined;  // those before it, in order
};

// Why an implementation is not even asked: its operator is turned off, or another one is wanted by name.
// `wanted_is_listed`: whether the operator has the one that is wanted.
std::string WhyPassedOver(const char* op, const char* implementation, bool wanted_is_listed);
// The name that an OnlyImplementation asks for; nullptr: none is alive.
const char* WantedImplementation();
void NoteChoice(const char* op, const char* implementation);

template <typename Case, typename Forward, typename Backward = NoBackward>
class ImplementationList {
 public:
  using Entry = Implementation<Case, Forward, Backward>;

  ImplementationList(const char* op, std::vector<Entry> entries) : op_(op), entries_(std::move(entries)) {
    TRIREME_CHECK(!entries_.empty() && entries_.back().why_not == nullptr) << op << " has no reference";
  }

  // The one that runs.
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

  // For a backward pass that has to be made by what made the forward pass.
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
std::string WhyNoLoops(const at::Tensor& tensor);   // of ops/cpu: CPU memory of fp32 or bf16
std::string WhyNoVendor(const at::Tensor& tensor);  // torch_npu's: an npu's memory
// The weight can be read as the input is: the same type, without gaps.
std::string WhyNotAlike(const at::Tensor& input, const at::Tensor& weight);
// The first of two reasons that is one.
inline std::string Either(std::string first, std::string second) {
  return first.empty() ? std::move(second) : std::move(first);
}

// While it lives, operators called on this thread take the implementation of this name where it takes the
// case, otherwise the reference; operators that have none of this name choose as ever. For tests and
// measurements.
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
bool KernelsAreWanted();  // also where another implementation was measured faster

// While it lives, keeps what operators called on this thread chose: operator and implementation, in order.
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
