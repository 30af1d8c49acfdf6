// The losses of a run, or another number of its steps, as a drawing: every step pale, a running mean of them dark,
// evaluations as dots.
#pragma once

#include <string>

#include "train/report/log_file.h"

namespace trireme {

// SVG; a log without losses gives axes alone. `what` names the number.
std::string DrawLossChart(const LogCurves& curves, const std::string& what = "loss");

}  // namespace trireme
