// One accelerator as ACL shows it, chosen by the process's local rank. Streams, events and memory
// belong to the device that is current on the thread that creates them. Tensor math is not here; that is
// libtorch's device.
#pragma once

#include <cstddef>
#include <string>

namespace trireme {

struct DeviceMemory {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

class Device {
 public:
  // The number of devices visible on this host.
  static int Count();

  // Device `index`, made current on this thread; one process uses one.
  explicit Device(int index);
  // The device of local rank `local_rank`: one each, so a host needs as many devices as ranks.
  static Device ForLocalRank(int local_rank);

  ~Device();
  Device(Device&& other) noexcept : index_(other.index_), index_on_reset_(other.index_on_reset_) { other.LeaveSet(); }
  Device& operator=(Device&&) = delete;

  // Leaves the reset to a library that still uses the device (torch_npu).
  void LeaveSet() { index_on_reset_ = kNone; }

  int index() const { return index_; }
  DeviceMemory memory() const;

  // Lets another thread of this process use the device.
  void MakeCurrent() const;
  // Waits for all streams.
  void Synchronize() const;

 private:
  static constexpr int kNone = -1;
  int index_;
  int index_on_reset_;
};

}  // namespace trireme
