// The process's devices and contexts, the tables of live streams and events, and each thread's current
// context. The only place that turns a handle into an object, with ACL's error codes for invalid ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "twin/acl/runtime/device_memory.h"
#include "twin/acl/runtime/event.h"
#include "twin/acl/runtime/limits.h"
#include "twin/acl/runtime/registry.h"
#include "twin/acl/runtime/settings.h"
#include "twin/acl/runtime/stream.h"

namespace twin {

class Context {
 public:
  Context(int device, bool is_default) : device(device), is_default(is_default) {}

  const int device;
  const bool is_default;
  std::atomic<bool> alive{true};
  aclrtContext handle = nullptr;

  std::mutex mutex;  // guards the rest
  std::shared_ptr<Stream> default_stream;
  std::map<int, int64_t> system_options;
};

struct Device {
  explicit Device(int id) : id(id), memory(id, settings().device_memory_bytes) {}

  const int id;
  DeviceMemory memory;

  std::mutex mutex;  // guards the rest
  std::shared_ptr<Context> default_context;
  std::set<int> peers;  // devices this one may access
  CoreLimits core_limits{kCubeCores, kVectorCores};
};

class Runtime {
 public:
  // Never destroyed: workers and the program's static objects may outlive main.
  static Runtime& Get();

  // nullptr if there is no such device.
  Device* device(int id);
  int device_count() const { return static_cast<int>(devices_.size()); }

  // The allocation that contains a pointer, over all devices. nullptr: not device memory.
  Device* OwnerOf(const void* pointer);

  Registry<Context> contexts{0x5343'0000'0000};
  Registry<Stream> streams{0x5353'0000'0000};
  Registry<Event> events{0x5345'0000'0000};

  std::atomic<bool> initialized{false};
  std::atomic<bool> finalized{false};

  std::shared_ptr<Context> NewContext(int device, bool is_default);
  // Registers a new stream; reports an error and returns nullptr if the device has no more.
  std::shared_ptr<Stream> NewStream(const char* function, const std::shared_ptr<Context>& context, aclrtStream* handle);
  std::vector<std::shared_ptr<Stream>> StreamsOf(int device) const;

  // Destroys a context and its streams by force.
  void DropContext(const std::shared_ptr<Context>& context);

 private:
  Runtime();
  std::vector<std::unique_ptr<Device>> devices_;
  std::atomic<int32_t> next_stream_id_{0};
  std::mutex stream_count_mutex_;
};

// The calling thread's context, nullptr if it has none or it was destroyed.
std::shared_ptr<Context> CurrentContext();
void SetCurrent(const std::shared_ptr<Context>& context);

// ACL_ERROR_UNINITIALIZE before aclInit.
aclError RequireInit(const char* function);

// The current context; ACL_ERROR_RT_CONTEXT_NULL if the thread has none.
aclError RequireContext(const char* function, std::shared_ptr<Context>* context);

// The stream behind a handle (nullptr: the current context's default stream), checked to belong to the
// current context.
aclError RequireStream(const char* function, aclrtStream handle, std::shared_ptr<Stream>* stream);

// The same without the context check, for work that the runtime itself issues.
std::shared_ptr<Stream> FindStream(aclrtStream handle);
std::shared_ptr<Stream> DefaultStream(const std::shared_ptr<Context>& context);

aclError RequireEvent(const char* function, aclrtEvent handle, std::shared_ptr<Event>* event);

}  // namespace twin
