// How fast this process multiplies matrices and copies memory right now, with its threads and next to its
// neighbours: the limits that a training step is compared with if the device has no stated peak.
#pragma once

#include "core/plan/dtype.h"
#include "core/tensor/tensor_device.h"

namespace trireme {

// Floating-point operations per second: the best of several square matmuls; takes some tenths of a
// second.
double MeasureMatrixRate(DType dtype, const TensorDevice& device = TensorDevice::Cpu());

// Bytes read and written per second by a copy of 256 MiB.
double MeasureCopyRate(const TensorDevice& device);

// Bytes read per second by a sum over 256 MiB.
double MeasureReadRate(const TensorDevice& device);

}  // namespace trireme
