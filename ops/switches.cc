#include "ops/switches.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace trireme {
namespace {

std::set<std::string>& Off() {
  static std::set<std::string> off;
  return off;
}

}  // namespace

const std::vector<std::string>& OperatorNames() {
  static const std::vector<std::string> names = {
      "rms_norm",      "swiglu",      "heads",  "cross_entropy", "adamw",       "accumulate",
      "gradient_norm", "moe_permute", "router", "low_rank",      "dropout_add", "attention_merge"};
  return names;
}

void RefuseUnknownOperators(const std::vector<std::string>& ops) {
  std::string known;
  for (const std::string& name : OperatorNames()) known += (known.empty() ? "" : ", ") + name;
  for (const std::string& op : ops) {
    if (std::find(OperatorNames().begin(), OperatorNames().end(), op) == OperatorNames().end()) {
      throw InputError("ops.off: there is no operator '", op, "'; write some of: ", known);
    }
  }
}

void TurnOperatorsOff(const std::vector<std::string>& ops) {
  RefuseUnknownOperators(ops);
  Off() = {ops.begin(), ops.end()};
}

bool OperatorIsOff(const std::string& op) { return !Off().empty() && Off().contains(op); }

}  // namespace trireme
