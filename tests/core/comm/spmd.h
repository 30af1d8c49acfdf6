// What tests under mpirun share: the job, the device, and small helpers for data. Every rank runs the same
// tests in the same order; main is in spmd_main.cc.
#pragma once

#include <cstddef>
#include <vector>

#include "core/comm/communicator_set.h"
#include "core/comm/job.h"
#include "core/device/buffer.h"
#include "core/device/device.h"

namespace trireme {

Job& TestJob();
const Device& TestDevice();

// One group over all ranks, created once and used by many tests.
Communicator& World();
// Another group of this rank alone.
Communicator& Alone();

template <typename T>
DeviceBuffer ToDevice(const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  Copy(buffer.data(), values.data(), buffer.bytes(), CopyKind::kHostToDevice);
  return buffer;
}

template <typename T>
std::vector<T> ToHost(const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  Copy(values.data(), buffer.data(), buffer.bytes(), CopyKind::kDeviceToHost);
  return values;
}

// `count` elements f(i).
template <typename T, typename Formula>
std::vector<T> Generate(size_t count, Formula formula) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(formula(i));
  return values;
}

}  // namespace trireme
