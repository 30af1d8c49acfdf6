// Device memory at addresses the program reserved (aclrtReserveMemAddress, aclrtMapMem): what such an address
// maps to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twin {

struct MappedPlace {
  bool reserved = false;           // the address lies in a reserved range
  int device = -1;                 // -1: not all of the range is mapped, or not all to one device
  size_t arena_offset = SIZE_MAX;  // SIZE_MAX: the range is not contiguous in the device's memory file
};

MappedPlace FindMapped(const void* pointer, size_t bytes);

// Drops the handles and mappings of a device that is being reset.
void DropMapped(int device);

}  // namespace twin
