#include "core/cli/duration.h"

#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr std::pair<const char*, double> kUnits[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}};

}  // namespace

double ParseDuration(const std::string& option, const std::string& text, double least) {
  std::istringstream in(text);
  double count = 0;
  std::string unit;
  if (in >> count >> unit && in.peek() == EOF) {
    for (const auto& [name, seconds] : kUnits) {
      if (unit == name && std::isfinite(count) && count * seconds >= least) return count * seconds;
    }
  }
  throw InputError(option, " ", text, ": wanted a time with its unit, such as 90s, 30m, 8h or 2d, of at least ", least,
                   " s");
}

std::string DurationText(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  for (const auto& [name, size] : kUnits) {
    if (seconds < size && size > 1e-3) continue;
    out << seconds / size << " " << (std::string(name) == "m" ? "min" : name);
    return out.str();
  }
  return out.str();
}

}  // namespace trireme
