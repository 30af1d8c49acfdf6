// One accelerator as ACL shows it, chosen by the process's place on its host. Streams, events and memory
// belong to the device that is current on the thread that makes them. Tensor math is not here: that is
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
  // How many devices this host shows.
  static int Count();

  // Device `index`, made current on this thread; one process uses one.
  explicit Device(int index);
  // The device that rank `local_rank` of a host takes: one each, so there must be as many as ranks.
  static Device ForLocalRank(int local_rank);

  ~Device();
  Device(Device&& other) noexcept : index_(other.index_), index_on_reset_(other.index_on_reset_) {
    other.LeaveSet();
  }
  Device& operator=(Device&&) = delete;

  // Not reset at the end: a library that goes on using it (torch_npu) does that.
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
