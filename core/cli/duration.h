// Durations as a command line has them: 90s, 30m, 8h, 2d, 250ms.
#pragma once

#include <string>

namespace trireme {

// Seconds. Anything but a number above 0 (or `least`) with its unit is the user's error; `option` names it there.
double ParseDuration(const std::string& option, const std::string& text, double least = 1e-3);

// "1.5 h", "12.0 s": with the largest unit that leaves at least 1.
std::string DurationText(double seconds);

}  // namespace trireme
