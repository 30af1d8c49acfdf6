#include "ops/switches.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/text.h"
#include "ops/operator_names.h"

namespace trireme {
namespace {

std::set<std::string>& Off() {
  static std::set<std::string> off;
  return off;
}

}  // namespace

const std::vector<std::string>& OperatorNames() {
#define NAME(op) #op,
  static const std::vector<std::string> names = {TRIREME_OPERATORS(NAME)};
#undef NAME
  return names;
}

void RefuseUnknownOperators(const std::vector<std::string>& ops) {
  const std::vector<std::string>& known = OperatorNames();
  for (const std::string& op : ops) {
    if (std::find(known.begin(), known.end(), op) != known.end()) continue;
    const std::optional<std::string> nearest = Nearest(op, known);
    throw InputError("ops.off: unknown operator '", op, "'; ", nearest ? Concat("did you mean ", *nearest, "? ") : "",
                     "known: ", Join(known));
  }
}

void TurnOperatorsOff(const std::vector<std::string>& ops) {
  RefuseUnknownOperators(ops);
  Off() = {ops.begin(), ops.end()};
}

bool OperatorIsOff(const std::string& op) { return !Off().empty() && Off().contains(op); }

}  // namespace trireme
