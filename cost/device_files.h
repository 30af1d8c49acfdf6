// The files of cost/devices, embedded when the program is built.
#pragma once

#include <string_view>
#include <vector>

namespace trireme {

struct DeviceFile {
  std::string_view name;  // "h100"
  std::string_view text;
};

const std::vector<DeviceFile>& DeviceFiles();

}  // namespace trireme
