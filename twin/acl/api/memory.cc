// Allocation: device memory from the current device, pinned host memory, and free-memory queries.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/mapped_memory.h"
#include "twin/acl/runtime/place.h"
#include "twin/acl/runtime/runtime.h"
#include "twin/common/rounding.h"

using twin::Context;
using twin::Device;
using twin::Fail;
using twin::FailNull;
using twin::Runtime;
using twin::Text;

namespace {

constexpr size_t kUnit = 32;
constexpr size_t kPageSized = size_t{1} << 20;  // larger allocations start on their own page

bool KnownPolicy(aclrtMemMallocPolicy policy) {
  constexpr unsigned kBandwidth = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH;
  return (static_cast<unsigned>(policy) & ~kBandwidth) <= ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
}

aclError Allocate(const char* function, void** pointer, size_t size, aclrtMemMallocPolicy policy, size_t padding) {
  if (pointer == nullptr) return FailNull(function, "devPtr");
  if (size == 0) return Fail(ACL_ERROR_INVALID_PARAM, function, "size is 0; wanted at least 1 byte");
  if (!KnownPolicy(policy)) {
    return Fail(ACL_ERROR_INVALID_PARAM, function, Text("unknown policy ", static_cast<int>(policy)));
  }
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(function, &context));
  Device* device = Runtime::Get().device(context->device);
  if (size > device->memory.capacity())
    return device->memory.Charge(function, size);  // fails, before rounding up could overflow
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t alignment = size >= kPageSized ? page : twin::OffsetAllocator::kGranule;
  return device->memory.Allocate(function, twin::RoundUp(size, kUnit) + padding, alignment, pointer);
}

}  // namespace

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return Allocate(__func__, devPtr, size, policy, kUnit);
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return Allocate(__func__, devPtr, size, policy, 0);
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return Allocate(__func__, devPtr, size, policy, kUnit);
}

aclError aclrtFree(void* devPtr) {
  if (devPtr == nullptr) return FailNull(__func__, "devPtr");
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  Device* owner = Runtime::Get().OwnerOf(devPtr);
  if (owner != nullptr) return owner->memory.Free(__func__, devPtr);
  return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__,
              Text(devPtr, " is ", twin::Locate(devPtr, 1).text(), "; wanted what aclrtMalloc returned"));
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  if (hostPtr == nullptr) return FailNull(__func__, "hostPtr");
  if (size == 0) return Fail(ACL_ERROR_INVALID_PARAM, __func__, "size is 0; wanted at least 1 byte");
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  constexpr size_t kPage = 4096;
  void* memory = size > SIZE_MAX - kPage ? nullptr : std::aligned_alloc(kPage, twin::RoundUp(size, kPage));
  if (memory == nullptr) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, __func__, Text("the host cannot allocate ", size, " bytes"));
  }
  twin::AddPinned(memory, size);
  *hostPtr = memory;
  return ACL_SUCCESS;
}

aclError aclrtFreeHost(void* hostPtr) {
  if (hostPtr == nullptr) return FailNull(__func__, "hostPtr");
  if (!twin::RemovePinned(hostPtr)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__,
                Text(hostPtr, " is ", twin::Locate(hostPtr, 1).text(), "; wanted what aclrtMallocHost returned"));
  }
  std::free(hostPtr);
  return ACL_SUCCESS;
}

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
  if (ptr == nullptr) return FailNull(__func__, "ptr");
  if (devPtr == nullptr) return FailNull(__func__, "devPtr");
  if (size == 0 || type != ACL_HOST_REGISTER_MAPPED) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__,
                Text("size is ", size, ", type ", static_cast<int>(type), "; wanted at least 1 byte, type 0"));
  }
  if (const twin::Location location = twin::Locate(ptr, size); location.place != twin::Place::kHost) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text(ptr, " is ", location.text(), "; wanted pageable memory"));
  }
  twin::AddPinned(ptr, size);
  *devPtr = ptr;
  return ACL_SUCCESS;
}

aclError aclrtHostUnregister(void* ptr) {
  if (ptr == nullptr) return FailNull(__func__, "ptr");
  if (twin::RemovePinned(ptr)) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text(ptr, " is not registered"));
}

// The device has only high-bandwidth memory; there is no DDR memory.
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  if (free == nullptr) return FailNull(__func__, "free");
  if (total == nullptr) return FailNull(__func__, "total");
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  const twin::DeviceMemory& memory = Runtime::Get().device(context->device)->memory;
  switch (attr) {
    case ACL_HBM_MEM:
    case ACL_HBM_MEM_HUGE:
    case ACL_HBM_MEM_NORMAL:
    case ACL_HBM_MEM_P2P_HUGE:
    case ACL_HBM_MEM_P2P_NORMAL:
    case ACL_HBM_MEM_HUGE1G:
    case ACL_HBM_MEM_P2P_HUGE1G:
      *total = memory.capacity();
      *free = memory.capacity() - memory.used();
      return ACL_SUCCESS;
    case ACL_DDR_MEM:
    case ACL_DDR_MEM_HUGE:
    case ACL_DDR_MEM_NORMAL:
    case ACL_DDR_MEM_P2P_HUGE:
    case ACL_DDR_MEM_P2P_NORMAL:
      *total = 0;
      *free = 0;
      return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown memory attribute ", static_cast<int>(attr)));
}
