// What the environment says about the twin's machine: how many devices, which of them are visible, how much
// memory each has; and the constants of the device it imitates (Ascend 910B3). Read once, at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace twin {

struct Settings {
  int devices = 8;  // visible ones, numbered from 0
  size_t device_memory_bytes = size_t{64} << 30;
  std::string problem;  // not empty: a variable could not be understood, and there is no device
};

const Settings& settings();

// Parses the three variables' values (nullptr: not set); settings() without the environment, for tests.
Settings ParseSettings(const char* devices, const char* visible, const char* memory_gb);

inline constexpr const char* kSocName = "Ascend910B3";
// The release that the twin stands for; docs/ascend.md names the same. With 8.3.RC1 torch_npu sets devices late and asks for
// a device's memory without a context, which no text at hand says newer releases answer.
inline constexpr std::string_view kCannVersion = "8.1.RC1";
inline constexpr uint32_t kCubeCores = 20;
inline constexpr uint32_t kVectorCores = 40;
inline constexpr int64_t kL2Bytes = int64_t{192} << 20;
inline constexpr size_t kMaxStreams = 1984;

}  // namespace twin
