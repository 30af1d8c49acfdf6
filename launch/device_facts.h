// What `trireme check` reports about the device that tensors are computed on: opens it, and measures it on
// rank 0.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "core/device/device.h"

namespace trireme {

// "cpu", "npu", "cuda": the device for this value of the key; an InputError if there is none.
std::string DeviceName(DeviceChoice choice);

// Opens the device, with its tensor library; returns torch's name for it ("cuda:0").
std::string OpenDevice(DeviceChoice choice, Device& device);

// {"software": …, "matrix_tflops": {"fp32": …, "bf16": …}, "copy_gbs": …} of the opened device.
Json DeviceFacts(DeviceChoice choice, Device& device);

}  // namespace trireme
