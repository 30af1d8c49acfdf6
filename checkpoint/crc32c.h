// CRC-32C (Castagnoli), as iSCSI, ext4 and Btrfs use it: finds every flipped bit, byte or burst of up to 32
// bits. Against accidents, not against forgers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

// Of `bytes` at `data`, going on from the checksum of what stands before them.
uint32_t Crc32c(const void* data, size_t bytes, uint32_t before = 0);

// The version without special instructions, which the other one is tested against.
uint32_t PlainCrc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace trireme
