// Copies larger than the caches use streaming stores, so that the target's old contents are not read first
// and the caches keep their contents. Small copies are memcpy.
#pragma once

#include <cstddef>

namespace twin {

// From this size on, an operation's output no longer stays in cache until it is read: measured, streaming
// wins by a third above it and loses below.
inline constexpr size_t kStreamFrom = size_t{8} << 20;

// memcpy, or streaming stores where `operation_bytes`, of which this copy is a part, is large.
void BulkCopy(void* target, const void* source, size_t bytes, size_t operation_bytes);

}  // namespace twin
