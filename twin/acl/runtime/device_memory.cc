// The memory file of a device and its usage accounting.
#include "twin/acl/runtime/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "twin/acl/runtime/error.h"
#include "twin/common/rounding.h"

namespace twin {
namespace {

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// A device maps scattered pages to contiguous addresses; the file cannot. Twice the capacity in (sparse)
// addresses hides this fragmentation: memory that is free can be allocated.
size_t ArenaBytes(size_t capacity) { return RoundUp(2 * capacity + (size_t{64} << 20), size_t{2} << 20); }

}  // namespace

DeviceMemory::DeviceMemory(int device, size_t capacity)
    : device_(device), capacity_(capacity), allocator_(ArenaBytes(capacity)) {}

void DeviceMemory::MakeArena() {
  const size_t bytes = ArenaBytes(capacity_);
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {  // ftruncate would end the process
    problem_ = Text("it needs up to ", bytes, " bytes, but the file size limit is ", limit.rlim_cur,
                    "; run ulimit -f unlimited, or lower TWIN_DEVICE_MEMORY_GB");
    return;
  }
  const int fd = memfd_create(("twin-device-" + std::to_string(device_)).c_str(), MFD_CLOEXEC);
  if (fd < 0) {
    problem_ = std::strerror(errno);
    return;
  }
  void* base = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  if (base == MAP_FAILED) {
    problem_ = std::strerror(errno);
    close(fd);
    return;
  }
  madvise(base, bytes, MADV_HUGEPAGE);  // best effort: not every kernel has huge pages for shared memory
  madvise(base, bytes, MADV_DONTDUMP);
  arena_ = {fd, static_cast<std::byte*>(base), bytes};
  base_ = arena_.base;
}

Arena DeviceMemory::arena() {
  std::call_once(made_, [this] { MakeArena(); });
  return arena_;
}

aclError DeviceMemory::Charge(const char* function, size_t bytes) {
  size_t used = used_.load();
  do {
    if (bytes > capacity_ - used) {
      return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, function,
                  Text("device ", device_, " is out of memory: ", bytes, " bytes wanted, ", capacity_ - used,
                       " free of ", capacity_, "; TWIN_DEVICE_MEMORY_GB sets the capacity"));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return ACL_SUCCESS;
}

void DeviceMemory::Release(size_t bytes) { used_.fetch_sub(std::min(bytes, used_.load())); }

aclError DeviceMemory::Allocate(const char* function, size_t charged, size_t alignment, void** pointer) {
  const Arena file = arena();
  if (file.base == nullptr) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, function,
                Text("the memory file of device ", device_, " could not be created: ", problem_));
  }
  TWIN_TRY(Charge(function, charged));
  std::unique_lock lock(mutex_);
  const std::optional<size_t> offset = allocator_.Allocate(charged, alignment);
  if (!offset) {
    lock.unlock();
    Release(charged);
    return Fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION, function,
        Text("device ", device_, " has no contiguous ", charged, " bytes, although ", capacity_ - used(), " are free"));
  }
  charged_[*offset] = charged;
  *pointer = file.base + *offset;
  return ACL_SUCCESS;
}

aclError DeviceMemory::Free(const char* function, void* pointer) {
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(pointer) - base_.load());
  std::unique_lock lock(mutex_);
  const std::optional<OffsetAllocator::Range> allocation = allocator_.Find(offset);
  if (!allocation || allocation->begin != offset) {
    lock.unlock();
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
                Text(pointer, allocation ? " is inside an allocation, not its start"
                                         : " is not allocated; was it already freed?"));
  }
  const OffsetAllocator::Range joined = *allocator_.Free(offset);
  // A page at either end is released only once no other allocation uses it.
  const size_t page = PageBytes();
  ReturnPages(RoundUp(std::max(joined.begin, RoundDown(allocation->begin, page)), page),
              RoundDown(std::min(joined.end, RoundUp(allocation->end, page)), page));
  const auto charged = charged_.find(offset);
  Release(charged->second);
  charged_.erase(charged);
  return ACL_SUCCESS;
}

void DeviceMemory::ReturnPages(size_t begin, size_t end) const {
  if (begin >= end) return;
  fallocate(arena_.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
            static_cast<off_t>(end - begin));
}

void DeviceMemory::FreeAll() {
  std::lock_guard lock(mutex_);
  for (const auto& [offset, bytes] : charged_) Release(bytes);
  charged_.clear();
  allocator_.Clear();
  if (base_ != nullptr) ReturnPages(0, arena_.bytes);
}

bool DeviceMemory::Owns(const void* pointer) const {
  const auto* base = base_.load();
  const auto* byte = static_cast<const std::byte*>(pointer);
  return base != nullptr && byte >= base && byte < base + ArenaBytes(capacity_);
}

size_t DeviceMemory::OffsetOf(const void* pointer, size_t bytes) const {
  if (!Owns(pointer)) return SIZE_MAX;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(pointer) - base_.load());
  std::lock_guard lock(mutex_);
  const std::optional<OffsetAllocator::Range> allocation = allocator_.Find(offset);
  return allocation && bytes <= allocation->end - offset ? offset : SIZE_MAX;
}

}  // namespace twin
