// Parses TWIN_DEVICES, ASCEND_RT_VISIBLE_DEVICES and TWIN_DEVICE_MEMORY_GB. An invalid value leaves no
// device, with the reason, rather than a guess.
#include "twin/acl/runtime/settings.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>

namespace twin {
namespace {

constexpr int kMostDevices = 1024;

bool ParseInt(std::string_view text, int* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseMemory(const char* text, size_t* bytes) {
  char* end = nullptr;
  const double gigabytes = std::strtod(text, &end);
  if (end == text || *end != '\0' || !std::isfinite(gigabytes) || gigabytes <= 0 || gigabytes > 16384) return false;
  *bytes = static_cast<size_t>(gigabytes * static_cast<double>(size_t{1} << 30));
  return *bytes > 0;
}

// "2,0,5": the devices a program sees, in the order it numbers them. Returns their count, -1 for an invalid
// list.
int CountVisible(const std::string& list, int devices) {
  std::set<int> seen;
  std::stringstream in(list);
  std::string entry;
  while (std::getline(in, entry, ',')) {
    int device = -1;
    if (!ParseInt(entry, &device) || device < 0 || device >= devices || !seen.insert(device).second) return -1;
  }
  return static_cast<int>(seen.size());
}

}  // namespace

Settings ParseSettings(const char* devices, const char* visible, const char* memory_gb) {
  Settings parsed;
  const auto refuse = [&parsed](const std::string& problem) {
    parsed.devices = 0;
    parsed.problem = problem;
    return parsed;
  };
  if (devices != nullptr &&
      (!ParseInt(devices, &parsed.devices) || parsed.devices < 0 || parsed.devices > kMostDevices)) {
    return refuse("TWIN_DEVICES is '" + std::string(devices) + "'; wanted a number from 0 to 1024");
  }
  if (memory_gb != nullptr && !ParseMemory(memory_gb, &parsed.device_memory_bytes)) {
    return refuse("TWIN_DEVICE_MEMORY_GB is '" + std::string(memory_gb) + "'; wanted a number above 0, e.g. 64 or 0.5");
  }
  if (visible != nullptr) {
    const int all = parsed.devices;
    parsed.devices = CountVisible(visible, all);
    if (parsed.devices < 0) {
      return refuse("ASCEND_RT_VISIBLE_DEVICES is '" + std::string(visible) +
                    "'; wanted distinct device numbers below " + std::to_string(all) + ", separated by commas");
    }
  }
  return parsed;
}

const Settings& settings() {
  static const auto* parsed = new Settings(ParseSettings(
      std::getenv("TWIN_DEVICES"), std::getenv("ASCEND_RT_VISIBLE_DEVICES"), std::getenv("TWIN_DEVICE_MEMORY_GB")));
  return *parsed;
}

}  // namespace twin
