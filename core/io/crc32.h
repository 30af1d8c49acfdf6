// CRC-32 as gzip and zip have it. For our own files crc32c.h, which is faster.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

// Of `bytes` at `data`, continuing from the checksum of the preceding bytes.
uint32_t Crc32(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace trireme
