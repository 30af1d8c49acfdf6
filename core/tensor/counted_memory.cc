#include "core/tensor/counted_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <atomic>

namespace trireme {
namespace {

std::atomic<int64_t> held = 0, most = 0;

void Count(int64_t change) {
  const int64_t now = held.fetch_add(change) + change;
  int64_t seen = most.load();
  while (now > seen && !most.compare_exchange_weak(seen, now)) {
  }
}

// The heap knows each block's size, so it need not be stored separately.
void Free(void* data) {
  Count(-static_cast<int64_t>(malloc_usable_size(data)));
  c10::free_cpu(data);
}

class Counting : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    Count(static_cast<int64_t>(malloc_usable_size(data)));
    return {data, data, &Free, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void CountedMemory::Begin() {
  static Counting counting;
  static const bool begun = [] {
    c10::SetCPUAllocator(&counting, /*priority=*/1);
    return true;
  }();
  (void)begun;
}

int64_t CountedMemory::bytes() { return held; }
int64_t CountedMemory::peak() { return most; }
void CountedMemory::ResetPeak() { most = held.load(); }

}  // namespace trireme
