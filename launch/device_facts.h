// What `trireme check` says of the device that tensors are computed on: opened, and measured on rank 0.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "core/device/device.h"

namespace trireme {

// "cpu", "npu", "cuda": the device that a run with this key gets; an InputError where it gets none.
std::string DeviceName(DeviceChoice choice);

// Opens the device, with its tensor library; as torch spells it ("cuda:0").
std::string OpenDevice(DeviceChoice choice, Device& device);

// {"software": …, "matrix_tflops": {"fp32": …, "bf16": …}, "copy_gbs": …} of the opened device.
Json DeviceFacts(DeviceChoice choice, Device& device);

}  // namespace trireme
