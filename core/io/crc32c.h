// CRC-32C (Castagnoli), as in iSCSI, ext4 and Btrfs: detects every flipped bit, byte or burst of up to 32
// bits. Protects against accidents, not against attackers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

// Of `bytes` at `data`, continuing from the checksum of the preceding bytes.
uint32_t Crc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace trireme
