// The twin's machine as the environment sets it: how many devices, which are visible, how much memory each
// has; and the constants of the device it imitates (Ascend 910B3). Read once, at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace twin {

struct Settings {
  int devices = 8;  // visible, numbered from 0
  size_t device_memory_bytes = size_t{64} << 30;
  std::string problem;  // not empty: a variable is invalid and there is no device
};

const Settings& settings();

// Parses the values of the three variables (nullptr: unset); settings() without the environment, for tests.
Settings ParseSettings(const char* devices, const char* visible, const char* memory_gb);

inline constexpr const char* kSocName = "Ascend910B3";
// The CANN release that the twin emulates; docs/ascend.md names the same. With 8.3.RC1 torch_npu sets devices
// late and queries a device's memory without a context; how newer releases answer that is not documented.
inline constexpr std::string_view kCannVersion = "8.1.RC1";
inline constexpr uint32_t kCubeCores = 20;
inline constexpr uint32_t kVectorCores = 40;
inline constexpr int64_t kL2Bytes = int64_t{192} << 20;
inline constexpr size_t kMaxStreams = 1984;

}  // namespace twin
