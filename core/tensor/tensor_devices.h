// The devices that tensors can be computed on, as the key `device` spells them: one file per device and one
// line in the list. The accepted values, the meaning of `auto` and the error messages are derived from it.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"
#include "core/device/device.h"
#include "core/tensor/tensor_device.h"

namespace trireme {

struct TensorDeviceEntry {
  const char* name;  // as in the schema
  // `provider`: of ACL, as CannProvider() returns it. Why a program with that provider cannot compute there;
  // empty: it can.
  std::string (*why_not)(const std::string& provider);
  // Whether `auto` may choose it.
  bool (*taken_by_auto)(const std::string& provider);
  // `index` is ACL's. One per process, never destroyed.
  TensorDevice& (*open)(int index);
};

TensorDeviceEntry CpuEntry();
TensorDeviceEntry NpuEntry();
TensorDeviceEntry CudaEntry();

// In the order in which `auto` tries them.
const std::vector<TensorDeviceEntry>& TensorDevices();

// The device for this value of the key. InputError if this program cannot compute there; touches no
// device, so that a run is refused before any work.
const TensorDeviceEntry& ChooseTensorDevice(DeviceChoice choice);
const TensorDeviceEntry& ChooseTensorDevice(DeviceChoice choice, const std::string& provider);

// Opens it on the device that ACL has made current. Devices other than the cpu stay open in their tensor
// library until the process ends.
TensorDevice& OpenTensorDevice(DeviceChoice choice, Device& device);

}  // namespace trireme
