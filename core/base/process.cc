#include "core/base/process.h"

#include <sys/resource.h>

namespace trireme {

int64_t PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  constexpr int64_t kKibibyte = 1024;  // Linux counts in these
  return usage.ru_maxrss * kKibibyte;
}

}  // namespace trireme
