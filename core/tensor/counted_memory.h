// CountedMemory: how much host memory tensors have, counted at torch's own allocator: what a device's
// allocator knows of itself. Resident memory tells less: it has pages that the heap keeps, and libraries.
#pragma once

#include <cstdint>

namespace trireme {

class CountedMemory {
 public:
  // Counts from now on; what tensors had before is not in it. A second call changes nothing.
  static void Begin();

  static int64_t bytes();
  static int64_t peak();  // since the beginning or ResetPeak
  static void ResetPeak();
};

}  // namespace trireme
