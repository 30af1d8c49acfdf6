// What the twin's HCCL needs from the twin's ACL runtime beyond ACL's public interface: work on streams,
// device memory that another process can map, memory accounting, error text. Not for programs: nothing
// outside twin/ includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "acl/acl.h"

namespace twin {

// Work on a stream, executed in order by the stream's worker thread. A result other than ACL_SUCCESS becomes
// the stream's sticky error: synchronising the stream returns it, and tasks queued after it are dropped.
using Task = std::function<aclError()>;

// Queues `task`. `what` names it in error messages and must outlive the stream (a literal).
ACL_FUNC_VISIBILITY aclError Enqueue(aclrtStream stream, Task task, const char* what);

// True on a worker thread whose stream is being destroyed by force or whose device's tasks are being aborted:
// a task that waits must poll it and return.
ACL_FUNC_VISIBILITY bool TaskAborted();

// The device a stream belongs to, -1 if the handle is not a live stream. nullptr is the default stream of the
// calling thread's current device.
ACL_FUNC_VISIBILITY int StreamDevice(aclrtStream stream);

// The context a stream was created in, nullptr for a bad handle.
ACL_FUNC_VISIBILITY aclrtContext StreamContext(aclrtStream stream);

// The device of the calling thread's current context, -1 if none was set.
ACL_FUNC_VISIBILITY int CurrentDevice();

// Appends to what aclGetRecentErrMsg returns to this thread, and stores it for the whole process too, so that
// a worker's message reaches the thread that synchronises.
ACL_FUNC_VISIBILITY void SetRecentError(const std::string& message);

// The memory of one device in this process: one memory file, mapped once, from which aclrtMalloc allocates.
// Another process that receives the file maps all of it and finds each allocation at its offset.
struct Arena {
  int fd = -1;
  std::byte* base = nullptr;
  size_t bytes = 0;
};
ACL_FUNC_VISIBILITY Arena DeviceArena(int device);

// The offset of [p, p + bytes) in the device's arena, or SIZE_MAX if it is not entirely inside one
// allocation.
ACL_FUNC_VISIBILITY size_t ArenaOffset(int device, const void* p, size_t bytes);

// Charges memory against the device's capacity without allocating any (HCCL's own buffers). Returns ACL's
// out-of-memory code if it does not fit.
ACL_FUNC_VISIBILITY aclError ChargeMemory(int device, size_t bytes);
ACL_FUNC_VISIBILITY void ReleaseMemory(int device, size_t bytes);

}  // namespace twin
