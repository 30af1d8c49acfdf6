// CountedMemory: how much host memory tensors use, counted in torch's allocator: the equivalent of a device
// allocator's statistics. Resident memory says less: it includes pages that the heap retains, and libraries.
#pragma once

#include <cstdint>

namespace trireme {

class CountedMemory {
 public:
  // Counts from now on; earlier allocations are not included. A second call changes nothing.
  static void Begin();

  static int64_t bytes();
  static int64_t peak();  // since the beginning or ResetPeak
  static void ResetPeak();
};

}  // namespace trireme
