// The devices that tensors can be computed on, as the key `device` spells them: one file per device and one
// line in the list. What a run may ask for, what `auto` means and what a refusal says are made from it.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"
#include "core/device/device.h"
#include "core/tensor/tensor_device.h"

namespace trireme {

struct TensorDeviceEntry {
  const char* name;  // as in the schema
  // `provider`: of ACL, as CannProvider() names it. Why a program of that provider cannot compute there;
  // empty: it can.
  std::string (*why_not)(const std::string& provider);
  // Whether `auto` may choose it.
  bool (*taken_by_auto)(const std::string& provider);
  // `index` as ACL counts. One per process, which is never destroyed.
  TensorDevice& (*open)(int index);
};

TensorDeviceEntry CpuEntry();
TensorDeviceEntry NpuEntry();
TensorDeviceEntry CudaEntry();

// In the order in which `auto` asks.
const std::vector<TensorDeviceEntry>& TensorDevices();

// The device that a run with this key gets. InputError where this program cannot compute there; touches no
// device, so that a run is refused before any work.
const TensorDeviceEntry& ChooseTensorDevice(DeviceChoice choice);
const TensorDeviceEntry& ChooseTensorDevice(DeviceChoice choice, const std::string& provider);

// Opens it on the device that ACL has made current. What is not the cpu's is kept by its tensor library until
// the process ends.
TensorDevice& OpenTensorDevice(DeviceChoice choice, Device& device);

}  // namespace trireme
