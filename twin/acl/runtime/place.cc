// The table of pinned host memory, and lookup across it, the devices' memory and mapped addresses.
#include "twin/acl/runtime/place.h"

#include <cstdint>
#include <map>
#include <mutex>

#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/mapped_memory.h"
#include "twin/acl/runtime/runtime.h"

namespace twin {
namespace {

struct Pinned {
  std::mutex mutex;
  std::map<uintptr_t, size_t> ranges;  // begin -> bytes
};

Pinned& pinned() {
  static auto* table = new Pinned;
  return *table;
}

bool IsPinned(const void* pointer, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Pinned& table = pinned();
  std::lock_guard lock(table.mutex);
  auto after = table.ranges.upper_bound(address);
  if (after == table.ranges.begin()) return false;
  --after;
  const size_t offset = address - after->first;
  return offset < after->second && bytes <= after->second - offset;
}

}  // namespace

void AddPinned(const void* pointer, size_t bytes) {
  Pinned& table = pinned();
  std::lock_guard lock(table.mutex);
  table.ranges[reinterpret_cast<uintptr_t>(pointer)] = bytes;
}

bool RemovePinned(const void* pointer) {
  Pinned& table = pinned();
  std::lock_guard lock(table.mutex);
  return table.ranges.erase(reinterpret_cast<uintptr_t>(pointer)) == 1;
}

std::string Location::text() const {
  switch (place) {
    case Place::kDevice:
      return Text("memory of device ", device);
    case Place::kDeviceNotAllocated:
      return Text("not entirely inside one allocation of device ", device);
    case Place::kPinnedHost:
      return "pinned host memory";
    case Place::kHost:
      break;
  }
  return "host memory";
}

Location Locate(const void* pointer, size_t bytes) {
  if (const Device* owner = Runtime::Get().OwnerOf(pointer); owner != nullptr) {
    const bool inside = owner->memory.OffsetOf(pointer, bytes) != SIZE_MAX;
    return {inside ? Place::kDevice : Place::kDeviceNotAllocated, owner->id};
  }
  if (const MappedPlace mapped = FindMapped(pointer, bytes); mapped.reserved) {
    return {mapped.device >= 0 ? Place::kDevice : Place::kDeviceNotAllocated, mapped.device};
  }
  return {IsPinned(pointer, bytes) ? Place::kPinnedHost : Place::kHost, -1};
}

}  // namespace twin
