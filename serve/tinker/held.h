// Held: that the lock of remote training is held. Functions which need it ask for it, so that none can be called
// without, and none takes the lock twice.
#pragma once

#include <mutex>

namespace trireme::tinker {

using Held = std::lock_guard<std::mutex>;

}  // namespace trireme::tinker
