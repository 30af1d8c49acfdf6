// The losses of a run as a drawing: every step pale, a running mean of them dark, evaluations as dots.
#pragma once

#include <string>

#include "train/report/log_file.h"

namespace trireme {

// SVG; a log without losses gives axes alone.
std::string DrawLossChart(const LogCurves& curves);

}  // namespace trireme
