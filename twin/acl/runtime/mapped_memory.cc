// ACL's virtual memory calls: reserve addresses, allocate physical memory, map one to the other. Physical
// memory is a range of the device's memory file, so mapped memory can be shared with another process too.
#include "twin/acl/runtime/mapped_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

namespace twin {
namespace {

// ACL's "recommended" granularity; sizes of physical memory must be multiples of it.
constexpr size_t kGranularity = size_t{2} << 20;

struct Physical {
  int device;
  size_t offset;  // in the device's memory file
  size_t bytes;
  bool mapped = false;
};

struct Mapping {
  std::shared_ptr<Physical> physical;
  size_t bytes;
};

struct Tables {
  std::mutex mutex;
  std::map<uintptr_t, size_t> reserved;  // begin -> bytes
  std::map<uintptr_t, Mapping> mapped;   // begin -> mapping
  Registry<Physical> handles{0x5350'0000'0000};
};

Tables& tables() {
  static auto* all = new Tables;
  return *all;
}

uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The entry of `ranges` that begins at or before `address`, end() where none does.
template <class Map>
auto AtOrBefore(Map& ranges, uintptr_t address) {
  const auto after = ranges.upper_bound(address);
  return after == ranges.begin() ? ranges.end() : std::prev(after);
}

bool Reserved(const Tables& all, uintptr_t address, size_t bytes) {
  const auto range = AtOrBefore(all.reserved, address);
  return range != all.reserved.end() && address - range->first < range->second &&
         bytes <= range->second - (address - range->first);
}

bool Overlaps(const Tables& all, uintptr_t address, size_t bytes) {
  const auto before = AtOrBefore(all.mapped, address);
  if (before != all.mapped.end() && before->first + before->second.bytes > address) return true;
  const auto after = all.mapped.lower_bound(address);
  return after != all.mapped.end() && after->first < address + bytes;
}

void MakeInaccessible(void* address, size_t bytes) {
  mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

MappedPlace FindMapped(const void* pointer, size_t bytes) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  uintptr_t address = Address(pointer);
  if (!Reserved(all, address, 0)) return {};
  MappedPlace place{.reserved = true};
  auto mapping = AtOrBefore(all.mapped, address);
  size_t expected = SIZE_MAX;  // where the next piece starts in the file if the range is contiguous there
  for (size_t left = bytes; mapping != all.mapped.end(); ++mapping) {
    const auto& [begin, what] = *mapping;
    if (address < begin || address - begin >= what.bytes) break;
    if (place.device >= 0 && place.device != what.physical->device) break;
    const size_t inside = address - begin;
    const size_t offset = what.physical->offset + inside;
    place.arena_offset = place.device < 0 ? offset : offset == expected ? place.arena_offset : SIZE_MAX;
    place.device = what.physical->device;
    const size_t here = what.bytes - inside;
    if (left <= here) return place;
    left -= here;
    address += here;
    expected = place.arena_offset == SIZE_MAX ? SIZE_MAX : offset + here;
  }
  return {.reserved = true};
}

void DropMapped(int device) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  for (auto mapping = all.mapped.begin(); mapping != all.mapped.end();) {
    if (mapping->second.physical->device != device) {
      ++mapping;
      continue;
    }
    MakeInaccessible(reinterpret_cast<void*>(mapping->first), mapping->second.bytes);
    mapping = all.mapped.erase(mapping);
  }
  for (const auto& [handle, physical] : all.handles.All()) {
    if (physical->device == device) all.handles.Remove(handle);
  }
}

}  // namespace twin

using twin::Fail;
using twin::FailNull;
using twin::Text;

namespace {

aclError RequireGranular(const char* function, const char* what, size_t bytes) {
  if (bytes != 0 && bytes % twin::kGranularity == 0) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text(what, " is ", bytes, "; wanted a multiple of ", twin::kGranularity, ", not 0"));
}

aclError RequireZero(const char* function, const char* what, uint64_t value) {
  if (value == 0) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function, Text(what, " is ", value, "; wanted 0"));
}

}  // namespace

aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t flags) {
  if (virPtr == nullptr) return FailNull(__func__, "virPtr");
  if (size == 0) return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "size is 0; wanted at least 1");
  TWIN_TRY(RequireZero(__func__, "alignment", alignment));
  if (expectPtr != nullptr) return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "expectPtr is set; wanted null");
  if (flags > 1) return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text("flags is ", flags, "; wanted 0 or 1"));
  // Any size will do: torch_npu tries 512 bytes to see whether its segments can be expandable. Reserve extra so that an
  // aligned address lies within; the remainder is released.
  const size_t whole = (size + twin::kGranularity - 1) / twin::kGranularity * twin::kGranularity;
  const size_t more = whole + twin::kGranularity;
  void* got = mmap(nullptr, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, __func__,
                Text("no range of ", size, " addresses: ", std::strerror(errno)));
  }
  const uintptr_t begin = (twin::Address(got) + twin::kGranularity - 1) / twin::kGranularity * twin::kGranularity;
  const size_t before = begin - twin::Address(got);
  if (before > 0) munmap(got, before);
  munmap(reinterpret_cast<void*>(begin + whole), more - before - whole);
  *virPtr = reinterpret_cast<void*>(begin);
  twin::Tables& all = twin::tables();
  std::lock_guard lock(all.mutex);
  all.reserved[begin] = whole;
  return ACL_SUCCESS;
}

aclError aclrtReleaseMemAddress(void* virPtr) {
  if (virPtr == nullptr) return FailNull(__func__, "virPtr");
  twin::Tables& all = twin::tables();
  std::lock_guard lock(all.mutex);
  const auto found = all.reserved.find(twin::Address(virPtr));
  if (found == all.reserved.end()) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text(virPtr, " is not the start of a reserved range"));
  }
  if (twin::Overlaps(all, found->first, found->second)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text("memory is still mapped in the range at ", virPtr));
  }
  munmap(virPtr, found->second);
  all.reserved.erase(found);
  return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop, uint64_t flags) {
  if (handle == nullptr) return FailNull(__func__, "handle");
  if (prop == nullptr) return FailNull(__func__, "prop");
  TWIN_TRY(RequireZero(__func__, "flags", flags));
  TWIN_TRY(RequireGranular(__func__, "size", size));
  if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "the location is not a device");
  }
  const int id = static_cast<int>(prop->location.id);
  twin::Device* device = twin::Runtime::Get().device(id);
  if (device == nullptr) return Fail(ACL_ERROR_RT_INVALID_DEVICEID, __func__, Text("no device ", id));
  void* pointer = nullptr;
  TWIN_TRY(device->memory.Allocate(__func__, size, twin::kGranularity, &pointer));
  const size_t offset = device->memory.OffsetOf(pointer, size);
  *handle = twin::tables().handles.Add(std::make_shared<twin::Physical>(id, offset, size));
  return ACL_SUCCESS;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  twin::Tables& all = twin::tables();
  std::lock_guard lock(all.mutex);
  const auto physical = all.handles.Find(handle);
  if (physical == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_HANDLE, __func__, Text(handle, " is not a live handle of physical memory"));
  }
  if (physical->mapped) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "the memory is still mapped; call aclrtUnmapMem first");
  }
  all.handles.Remove(handle);
  twin::DeviceMemory& memory = twin::Runtime::Get().device(physical->device)->memory;
  return memory.Free(__func__, memory.arena().base + physical->offset);
}

aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  if (virPtr == nullptr) return FailNull(__func__, "virPtr");
  TWIN_TRY(RequireZero(__func__, "offset", offset));
  TWIN_TRY(RequireZero(__func__, "flags", flags));
  twin::Tables& all = twin::tables();
  std::lock_guard lock(all.mutex);
  const auto physical = all.handles.Find(handle);
  if (physical == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_HANDLE, __func__, Text(handle, " is not a live handle of physical memory"));
  }
  if (size != physical->bytes) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__,
                Text("size is ", size, "; wanted the handle's ", physical->bytes));
  }
  const uintptr_t begin = twin::Address(virPtr);
  if (begin % twin::kGranularity != 0 || !twin::Reserved(all, begin, size)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__,
                Text(virPtr, " with ", size, " bytes is not an aligned part of a reserved range"));
  }
  if (physical->mapped || twin::Overlaps(all, begin, size)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "the handle or part of the range is already mapped");
  }
  const int fd = twin::Runtime::Get().device(physical->device)->memory.arena().fd;
  if (mmap(virPtr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
           static_cast<off_t>(physical->offset)) == MAP_FAILED) {
    return Fail(ACL_ERROR_RT_INTERNAL_ERROR, __func__, Text("mmap: ", std::strerror(errno)));
  }
  physical->mapped = true;
  all.mapped[begin] = {physical, size};
  return ACL_SUCCESS;
}

aclError aclrtUnmapMem(void* virPtr) {
  if (virPtr == nullptr) return FailNull(__func__, "virPtr");
  twin::Tables& all = twin::tables();
  std::lock_guard lock(all.mutex);
  const auto found = all.mapped.find(twin::Address(virPtr));
  if (found == all.mapped.end()) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text(virPtr, " is not the start of a mapping"));
  }
  twin::MakeInaccessible(virPtr, found->second.bytes);
  found->second.physical->mapped = false;
  all.mapped.erase(found);
  return ACL_SUCCESS;
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option,
                                          size_t* granularity) {
  if (prop == nullptr) return FailNull(__func__, "prop");
  if (granularity == nullptr) return FailNull(__func__, "granularity");
  if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__,
                Text("option is ", static_cast<int>(option), "; wanted 0 (minimum) or 1 (recommended)"));
  }
  *granularity = twin::kGranularity;
  return ACL_SUCCESS;
}
