#include "core/device/buffer.h"

#include "core/device/acl_call.h"

namespace trireme {
namespace {

aclrtMemcpyKind AclKind(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return ACL_MEMCPY_HOST_TO_DEVICE;
    case CopyKind::kDeviceToHost:
      return ACL_MEMCPY_DEVICE_TO_HOST;
    case CopyKind::kDeviceToDevice:
      break;
  }
  return ACL_MEMCPY_DEVICE_TO_DEVICE;
}

}  // namespace

DeviceBuffer::DeviceBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  AclCall(aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc", bytes, " bytes");
  data_.reset(data);
}

PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  AclCall(aclrtMallocHost(&data, bytes), "aclrtMallocHost", bytes, " bytes");
  data_.reset(data);
}

void Copy(void* target, const void* source, size_t bytes, CopyKind kind) {
  if (bytes == 0) return;
  AclCall(aclrtMemcpy(target, bytes, source, bytes, AclKind(kind)), "aclrtMemcpy", bytes, " bytes");
}

void CopyAsync(void* target, const void* source, size_t bytes, CopyKind kind, const Stream& stream) {
  if (bytes == 0) return;
  AclCall(aclrtMemcpyAsync(target, bytes, source, bytes, AclKind(kind), stream.handle()), "aclrtMemcpyAsync", bytes,
          " bytes");
}

void FillAsync(void* target, int value, size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  AclCall(aclrtMemsetAsync(target, bytes, value, bytes, stream.handle()), "aclrtMemsetAsync", bytes, " bytes");
}

}  // namespace trireme
