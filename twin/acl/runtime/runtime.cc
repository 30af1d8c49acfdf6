// Tables, current contexts, and handle checks.
#include "twin/acl/runtime/runtime.h"

#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/mapped_memory.h"
#include "twin/acl/runtime/per_thread.h"

namespace twin {
namespace {

struct ThreadContextSlot {
  std::shared_ptr<Context> context;
};

std::shared_ptr<Context>& ThreadContext() { return PerThread<ThreadContextSlot>().context; }

}  // namespace

Runtime::Runtime() {
  for (int id = 0; id < settings().devices; ++id) devices_.push_back(std::make_unique<Device>(id));
}

Runtime& Runtime::Get() {
  static auto* runtime = new Runtime;
  return *runtime;
}

Device* Runtime::device(int id) { return id < 0 || id >= device_count() ? nullptr : devices_[id].get(); }

Device* Runtime::OwnerOf(const void* pointer) {
  for (const auto& device : devices_) {
    if (device->memory.Owns(pointer)) return device.get();
  }
  return nullptr;
}

std::shared_ptr<Context> Runtime::NewContext(int device, bool is_default) {
  auto context = std::make_shared<Context>(device, is_default);
  context->handle = contexts.Add(context);
  return context;
}

std::shared_ptr<Stream> Runtime::NewStream(const char* function, const std::shared_ptr<Context>& context,
                                           aclrtStream* handle) {
  std::lock_guard lock(stream_count_mutex_);
  if (StreamsOf(context->device).size() >= kMaxStreams) {
    Fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, function,
         Text("device ", context->device, " has ", kMaxStreams, " streams, the maximum; destroy one first"));
    return nullptr;
  }
  auto stream = std::make_shared<Stream>(context, context->device, next_stream_id_++);
  *handle = streams.Add(stream);
  return stream;
}

std::vector<std::shared_ptr<Stream>> Runtime::StreamsOf(int device) const {
  std::vector<std::shared_ptr<Stream>> found;
  for (const auto& [handle, stream] : streams.All()) {
    if (stream->device() == device) found.push_back(stream);
  }
  return found;
}

void Runtime::DropContext(const std::shared_ptr<Context>& context) {
  context->alive = false;
  contexts.Remove(context->handle);
  constexpr std::chrono::seconds kPatience{5};
  for (const auto& [handle, stream] : streams.All()) {
    if (stream->context() != context) continue;
    streams.Remove(handle);
    if (stream->Abort(Signal::Clock::now() + kPatience)) stream->Close();
  }
  std::lock_guard lock(context->mutex);
  context->default_stream = nullptr;
}

std::shared_ptr<Context> CurrentContext() {
  std::shared_ptr<Context>& context = ThreadContext();
  if (context != nullptr && !context->alive) context = nullptr;
  return context;
}

void SetCurrent(const std::shared_ptr<Context>& context) { ThreadContext() = context; }

aclError RequireInit(const char* function) {
  const Runtime& runtime = Runtime::Get();
  if (runtime.initialized && !runtime.finalized) return ACL_SUCCESS;
  return Fail(ACL_ERROR_UNINITIALIZE, function,
              runtime.finalized ? "called after aclFinalize" : "called before aclInit; call aclInit(nullptr) first");
}

aclError RequireContext(const char* function, std::shared_ptr<Context>* context) {
  *context = CurrentContext();
  if (*context != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_CONTEXT_NULL, function,
              "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext on it first");
}

std::shared_ptr<Stream> DefaultStream(const std::shared_ptr<Context>& context) {
  std::lock_guard lock(context->mutex);
  if (context->default_stream == nullptr && context->alive) {
    aclrtStream handle = nullptr;
    context->default_stream = Runtime::Get().NewStream("default stream", context, &handle);
  }
  return context->default_stream;
}

std::shared_ptr<Stream> FindStream(aclrtStream handle) {
  if (handle != nullptr) return Runtime::Get().streams.Find(handle);
  const std::shared_ptr<Context> context = CurrentContext();
  return context == nullptr ? nullptr : DefaultStream(context);
}

aclError RequireStream(const char* function, aclrtStream handle, std::shared_ptr<Stream>* stream) {
  std::shared_ptr<Context> context;
  TWIN_TRY(RequireContext(function, &context));
  *stream = handle == nullptr ? DefaultStream(context) : Runtime::Get().streams.Find(handle);
  if (*stream == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_HANDLE, function,
                Text(handle, " is not a live stream; it was never created or was destroyed"));
  }
  if ((*stream)->context() == context) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_CONTEXT, function,
              Text("stream ", (*stream)->id(), " belongs to ",
                   (*stream)->device() == context->device ? "another context of device " : "device ",
                   (*stream)->device(), "; this thread's context is on device ", context->device));
}

aclError RequireEvent(const char* function, aclrtEvent handle, std::shared_ptr<Event>* event) {
  if (handle == nullptr) return FailNull(function, "event");
  *event = Runtime::Get().events.Find(handle);
  if (*event != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_INVALID_HANDLE, function,
              Text(handle, " is not a live event; it was never created or was destroyed"));
}

// internal.h

aclError Enqueue(aclrtStream handle, Task task, const char* what) {
  const std::shared_ptr<Stream> stream = FindStream(handle);
  if (stream != nullptr) return stream->Enqueue(std::move(task), what);
  if (handle == nullptr) {
    std::shared_ptr<Context> context;
    TWIN_TRY(RequireContext(what, &context));
    return ACL_ERROR_RT_NO_STREAM_RESOURCE;
  }
  return Fail(ACL_ERROR_RT_INVALID_HANDLE, what, Text(handle, " is not a live stream"));
}

int StreamDevice(aclrtStream handle) {
  const std::shared_ptr<Stream> stream = FindStream(handle);
  return stream == nullptr ? -1 : stream->device();
}

aclrtContext StreamContext(aclrtStream handle) {
  const std::shared_ptr<Stream> stream = FindStream(handle);
  return stream == nullptr ? nullptr : stream->context()->handle;
}

int CurrentDevice() {
  const std::shared_ptr<Context> context = CurrentContext();
  return context == nullptr ? -1 : context->device;
}

Arena DeviceArena(int device) {
  Device* found = Runtime::Get().device(device);
  return found == nullptr ? Arena{} : found->memory.arena();
}

size_t ArenaOffset(int device, const void* p, size_t bytes) {
  Device* found = Runtime::Get().device(device);
  if (found == nullptr) return SIZE_MAX;
  if (found->memory.Owns(p)) return found->memory.OffsetOf(p, bytes);
  const MappedPlace mapped = FindMapped(p, bytes);
  return mapped.device == device ? mapped.arena_offset : SIZE_MAX;
}

aclError ChargeMemory(int device, size_t bytes) {
  Device* found = Runtime::Get().device(device);
  if (found == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "ChargeMemory", Text("no device ", device));
  }
  return found->memory.Charge("device memory", bytes);
}

void ReleaseMemory(int device, size_t bytes) {
  if (Device* found = Runtime::Get().device(device); found != nullptr) found->memory.Release(bytes);
}

}  // namespace twin
