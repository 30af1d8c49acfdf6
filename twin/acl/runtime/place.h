// Where an address lies: in a device's memory, in pinned host memory, or elsewhere on the host. Copies check
// it before they touch anything.
#pragma once

#include <cstddef>
#include <string>

namespace twin {

enum class Place { kDevice, kDeviceNotAllocated, kPinnedHost, kHost };

struct Location {
  Place place = Place::kHost;
  int device = -1;

  bool on_device() const { return place == Place::kDevice; }
  std::string text() const;
};

// For the whole range [pointer, pointer + bytes). A range that leaves its allocation is kDeviceNotAllocated.
Location Locate(const void* pointer, size_t bytes);

// Pinned host memory: aclrtMallocHost's and aclrtHostRegister's.
void AddPinned(const void* pointer, size_t bytes);
bool RemovePinned(const void* pointer);

}  // namespace twin
