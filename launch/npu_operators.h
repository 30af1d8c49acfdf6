// What `trireme check --npu-ops` reports about CANN's operators.
#pragma once

#include "core/base/json.h"

namespace trireme {

// {"there": …, "used": …, "missing": [names], "operators": [{"name", "used", "there", "calls"}]}
Json NpuOperatorFacts();

void PrintNpuOperators(const Json& facts);

}  // namespace trireme
