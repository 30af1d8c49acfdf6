#include "core/base/process.h"

#include <malloc.h>
#include <sys/resource.h>

#include <limits>

namespace trireme {

int64_t PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  constexpr int64_t kKibibyte = 1024;  // Linux counts in these
  return usage.ru_maxrss * kKibibyte;
}

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace trireme
