// What killed jobs leave in /dev/shm: Open MPI's shared-memory segments, which it removes only where it ends by
// itself. Memory that nobody uses and nobody frees.
#pragma once

#include <string>

namespace trireme {

// Removes those of this user that no process has open, in whatever container it runs; gives how many. A segment that
// a live job has open or mapped is never touched: the kernel is asked, not names or process ids.
int RemoveStaleSegments(const std::string& folder = "/dev/shm");

}  // namespace trireme
