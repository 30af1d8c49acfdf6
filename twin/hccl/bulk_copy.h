// Copies that are larger than the caches: written past them, so that the target's old contents are not read
// first and what is in cache stays there. Small copies are memcpy.
#pragma once

#include <cstddef>

namespace twin {

// From this many bytes on an operation's output no longer stays in cache until somebody reads it: measured,
// streaming wins from here on by a third, and loses below.
inline constexpr size_t kStreamFrom = size_t{8} << 20;

// memcpy, or streaming stores where `operation_bytes`, of which this copy is a part, is large.
void BulkCopy(void* target, const void* source, size_t bytes, size_t operation_bytes);

}  // namespace twin
