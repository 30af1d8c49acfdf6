// What the operating system knows of this process.
#pragma once

#include <cstdint>

namespace trireme {

// The most memory that was resident at one time since the start.
int64_t PeakResidentBytes();

}  // namespace trireme
