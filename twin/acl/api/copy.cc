// Copies and sets, synchronous and on a stream. Each checks that its addresses match the memcpy kind it was
// given.
//
// A stream copy that involves pageable host memory is not asynchronous: it runs in stream order, and the call
// returns when it is done, as on a device that must stage such memory.
#include <cstdint>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/host_waits.h"
#include "twin/acl/runtime/place.h"
#include "twin/acl/runtime/runtime.h"

using twin::Context;
using twin::Fail;
using twin::FailNull;
using twin::Location;
using twin::Place;
using twin::Runtime;
using twin::Stream;
using twin::Text;

namespace {

// `rows` rows of `width` bytes, `…_pitch` bytes apart.
struct Copy {
  void* dst;
  size_t dst_pitch;
  const void* src;
  size_t src_pitch;
  size_t width;
  size_t rows;

  size_t dst_bytes() const { return rows == 0 ? 0 : (rows - 1) * dst_pitch + width; }
  size_t src_bytes() const { return rows == 0 ? 0 : (rows - 1) * src_pitch + width; }

  void Run() const {
    for (size_t row = 0; row < rows; ++row) {
      // Overlap is the program's error, but the result should not differ from run to run.
      std::memmove(static_cast<std::byte*>(dst) + row * dst_pitch, static_cast<const std::byte*>(src) + row * src_pitch,
                   width);
    }
  }
};

aclError RequireSide(const char* function, const char* side, const Location& found, bool wants_device) {
  const bool right =
      wants_device ? found.on_device() : found.place == Place::kHost || found.place == Place::kPinnedHost;
  if (right) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text(side, " is ", found.text(), "; this kind of copy needs ", wants_device ? "device" : "host",
                   " memory there"));
}

aclError RequirePeers(const char* function, int one, int other) {
  const auto reaches = [](int from, int to) {
    twin::Device* device = Runtime::Get().device(from);
    std::lock_guard lock(device->mutex);
    return device->peers.count(to) == 1;
  };
  if (one == other || reaches(one, other) || reaches(other, one)) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text("the copy is between devices ", one, " and ", other, "; call aclrtDeviceEnablePeerAccess first"));
}

// Checks both sides. `pageable` tells whether unpinned host memory is involved.
aclError CheckPlaces(const char* function, const Copy& copy, aclrtMemcpyKind kind, bool* pageable) {
  if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEVICE_TO_DEVICE) {
    return Fail(ACL_ERROR_INVALID_PARAM, function, Text("unknown kind ", static_cast<int>(kind)));
  }
  const Location dst = twin::Locate(copy.dst, copy.dst_bytes());
  const Location src = twin::Locate(copy.src, copy.src_bytes());
  TWIN_TRY(RequireSide(function, "dst", dst, kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE));
  TWIN_TRY(RequireSide(function, "src", src, kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE));
  *pageable = dst.place == Place::kHost || src.place == Place::kHost;
  return kind == ACL_MEMCPY_DEVICE_TO_DEVICE ? RequirePeers(function, src.device, dst.device) : ACL_SUCCESS;
}

aclError CheckLine(const char* function, const void* dst, size_t dest_max, const void* src, size_t count) {
  if (dst == nullptr) return FailNull(function, "dst");
  if (src == nullptr) return FailNull(function, "src");
  if (count <= dest_max) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text("count is ", count, " but destMax is ", dest_max, "; wanted count <= destMax"));
}

aclError CheckMatrix(const char* function, const Copy& copy) {
  if (copy.dst == nullptr) return FailNull(function, "dst");
  if (copy.src == nullptr) return FailNull(function, "src");
  if (copy.width > 0 && copy.rows > 0 && copy.width <= copy.dst_pitch && copy.width <= copy.src_pitch) {
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text("width ", copy.width, ", height ", copy.rows, ", dpitch ", copy.dst_pitch, ", spitch ",
                   copy.src_pitch, "; wanted width and height above 0, and width within both pitches"));
}

aclError RunNow(const char* function, const Copy& copy, aclrtMemcpyKind kind) {
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(function, &context));
  bool pageable = false;
  TWIN_TRY(CheckPlaces(function, copy, kind, &pageable));
  if (kind != ACL_MEMCPY_DEVICE_TO_DEVICE) twin::CountHostCopy(function, kind == ACL_MEMCPY_DEVICE_TO_HOST);
  copy.Run();
  return ACL_SUCCESS;
}

aclError RunOnStream(const char* function, const Copy& copy, aclrtMemcpyKind kind, aclrtStream handle) {
  std::shared_ptr<Stream> stream;
  TWIN_TRY(twin::RequireStream(function, handle, &stream));
  bool pageable = false;
  TWIN_TRY(CheckPlaces(function, copy, kind, &pageable));
  const auto task = [copy] {
    copy.Run();
    return ACL_SUCCESS;
  };
  TWIN_TRY(stream->Enqueue(task, function));
  if (!pageable) return ACL_SUCCESS;
  twin::CountHostCopy(function, kind == ACL_MEMCPY_DEVICE_TO_HOST);
  return stream->Synchronize(function);
}

Copy Line(void* dst, const void* src, size_t count) { return {dst, count, src, count, count, 1}; }

aclError CheckSet(const char* function, void* pointer, size_t max_count, size_t count) {
  if (pointer == nullptr) return FailNull(function, "devPtr");
  if (count > max_count) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
                Text("count is ", count, " but maxCount is ", max_count, "; wanted count <= maxCount"));
  }
  const Location location = twin::Locate(pointer, count);
  if (location.place != Place::kDeviceNotAllocated) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function, Text(pointer, " with ", count, " bytes is ", location.text()));
}

}  // namespace

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  TWIN_TRY(CheckLine(__func__, dst, destMax, src, count));
  return RunNow(__func__, Line(dst, src, count), kind);
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  TWIN_TRY(CheckLine(__func__, dst, destMax, src, count));
  return RunOnStream(__func__, Line(dst, src, count), kind, stream);
}

aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream) {
  TWIN_TRY(CheckLine(__func__, dst, destMax, src, count));
  return RunOnStream(__func__, Line(dst, src, count), kind, stream);
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
  const Copy copy{dst, dpitch, src, spitch, width, height};
  TWIN_TRY(CheckMatrix(__func__, copy));
  return RunNow(__func__, copy, kind);
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
  const Copy copy{dst, dpitch, src, spitch, width, height};
  TWIN_TRY(CheckMatrix(__func__, copy));
  return RunOnStream(__func__, copy, kind, stream);
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  TWIN_TRY(CheckSet(__func__, devPtr, maxCount, count));
  std::memset(devPtr, value, count);
  return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  TWIN_TRY(CheckSet(__func__, devPtr, maxCount, count));
  return found->Enqueue(
      [=] {
        std::memset(devPtr, value, count);
        return ACL_SUCCESS;
      },
      __func__);
}
