// The memory of one device: one memory file that another process can map, an allocator over it, and the count
// of what is used against the capacity. Pages come with the first touch and go back to the system when freed.
// Two processes that use one device do not see each other's use.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "twin/acl/internal.h"
#include "twin/acl/offset_allocator.h"

namespace twin {

class DeviceMemory {
 public:
  DeviceMemory(int device, size_t capacity);

  // Counts `charged` bytes and hands out at least as many. ACL_ERROR_RT_MEMORY_ALLOCATION where they do not
  // fit.
  aclError Allocate(const char* function, size_t charged, size_t alignment, void** pointer);

  // ACL_ERROR_RT_PARAM_INVALID for what Allocate did not return or has been freed.
  aclError Free(const char* function, void* pointer);

  // Counts without handing out.
  aclError Charge(const char* function, size_t bytes);
  void Release(size_t bytes);

  // Frees all and gives every page back. Counts made by Charge stay.
  void FreeAll();

  // Made at the first call; the same ever after.
  Arena arena();

  // Whether the address lies in the memory file's mapping, allocated or not.
  bool Owns(const void* pointer) const;

  // SIZE_MAX where [pointer, pointer + bytes) is not wholly inside one allocation.
  size_t OffsetOf(const void* pointer, size_t bytes) const;

  size_t capacity() const { return capacity_; }
  size_t used() const { return used_.load(); }

 private:
  void MakeArena();
  void ReturnPages(size_t begin, size_t end) const;

  const int device_;
  const size_t capacity_;
  std::once_flag made_;
  Arena arena_;
  std::string problem_;  // why there is no arena
  std::atomic<std::byte*> base_{nullptr};
  std::atomic<size_t> used_{0};

  mutable std::mutex mutex_;  // the rest
  OffsetAllocator allocator_;
  std::map<size_t, size_t> charged_;  // offset -> bytes counted
};

}  // namespace twin
