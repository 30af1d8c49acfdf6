// The memory of one device: a memory file that another process can map, an allocator over it, and the usage
// counted against the capacity. Pages are populated on first touch and returned to the system when freed. Two
// processes on one device do not see each other's usage.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "twin/acl/internal.h"
#include "twin/acl/runtime/offset_allocator.h"

namespace twin {

class DeviceMemory {
 public:
  DeviceMemory(int device, size_t capacity);

  // Charges `charged` bytes and allocates at least as many. ACL_ERROR_RT_MEMORY_ALLOCATION if they do not
  // fit.
  aclError Allocate(const char* function, size_t charged, size_t alignment, void** pointer);

  // ACL_ERROR_RT_PARAM_INVALID for a pointer that Allocate did not return or that was already freed.
  aclError Free(const char* function, void* pointer);

  // Charges without allocating.
  aclError Charge(const char* function, size_t bytes);
  void Release(size_t bytes);

  // Frees everything and returns every page. Bytes charged by Charge stay charged.
  void FreeAll();

  // Created by the first call; the same from then on.
  Arena arena();

  // Whether the address lies in the memory file's mapping, allocated or not.
  bool Owns(const void* pointer) const;

  // SIZE_MAX if [pointer, pointer + bytes) is not entirely inside one allocation.
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

  mutable std::mutex mutex_;  // guards the rest
  OffsetAllocator allocator_;
  std::map<size_t, size_t> charged_;  // offset -> bytes charged
};

}  // namespace twin
