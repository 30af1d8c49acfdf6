// How fast this process multiplies matrices and copies memory here and now, with its threads and beside its
// neighbours: the limits that a training step is compared with where a device has no stated peak.
#pragma once

#include "core/plan/dtype.h"
#include "core/tensor/tensor_device.h"

namespace trireme {

// Floating-point operations a second: the best of several products of square matrices, some tenths of a
// second.
double MeasureMatrixRate(DType dtype, const TensorDevice& device = TensorDevice::Cpu());

// Bytes read and written per second by a copy of 256 MiB.
double MeasureCopyRate(const TensorDevice& device);

}  // namespace trireme
