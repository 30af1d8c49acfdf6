// What `trireme check` says of device npu: torch_npu itself, and with --npu-ops CANN's operators.
#pragma once

#include "core/base/json.h"

namespace trireme {

// {"there": …, "used": …, "missing": [names], "operators": [{"name", "used", "there", "calls"}]}
Json NpuOperatorFacts();

void PrintNpuOperators(const Json& facts);

// {"torch_npu": version, "matrix_tflops": …}: brings torch_npu in and computes on this rank's device.
Json NpuFacts(int device);

}  // namespace trireme
