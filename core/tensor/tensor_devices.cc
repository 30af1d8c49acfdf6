#include "core/tensor/tensor_devices.h"

#include "core/base/error.h"
#include "core/config/schema.h"
#include "core/device/cann_info.h"

namespace trireme {

const std::vector<TensorDeviceEntry>& TensorDevices() {
  static const std::vector<TensorDeviceEntry> devices = {NpuEntry(), CudaEntry(), CpuEntry()};
  return devices;
}

const TensorDeviceEntry& ChooseTensorDevice(DeviceChoice choice) { return ChooseTensorDevice(choice, CannProvider()); }

const TensorDeviceEntry& ChooseTensorDevice(DeviceChoice choice, const std::string& provider) {
  const std::string name = SpellingOf(*DeviceChoice_descriptor()->FindValueByNumber(choice));
  for (const TensorDeviceEntry& entry : TensorDevices()) {
    if (choice == DEVICE_AUTO && entry.taken_by_auto(provider)) return entry;
    if (name != entry.name) continue;
    const std::string why = entry.why_not(provider);
    if (!why.empty()) throw InputError("device: ", name, ": ", why);
    return entry;
  }
  TRIREME_CHECK(false) << "the schema lists device " << name << ", but the list of devices does not";
  return TensorDevices().back();
}

TensorDevice& OpenTensorDevice(DeviceChoice choice, Device& device) {
  TensorDevice& tensors = ChooseTensorDevice(choice).open(device.index());
  if (!tensors.is_cpu()) device.LeaveSet();
  return tensors;
}

}  // namespace trireme
