// What killed jobs leave in /dev/shm: Open MPI's shared-memory segments, which it removes only on an orderly
// exit. This memory is in no one's use and is never freed.
#pragma once

#include <string>

namespace trireme {

// Removes this user's segments that no process has open, in whatever container it runs; returns how many. A
// segment that a live job has open or mapped is never touched: this is decided by the kernel, not by names or
// process ids.
int RemoveStaleSegments(const std::string& folder = "/dev/shm");

}  // namespace trireme
