// Kernel launch: a few threads run the blocks of a launch in order; more threads join where blocks wait for
// each other.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "twin/acl/runtime/block_threads.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/place.h"
#include "twin/acl/runtime/runtime.h"
#include "twin/include/twin/launch.h"

namespace twin {
namespace {

constexpr uint32_t kMostBlocks = 65535;

// An odd number, unlike stream addresses; its other bits count threads.
bool IsCallersThreads(const void* stream) {
  return reinterpret_cast<uintptr_t>(stream) % 2 == 1 && reinterpret_cast<uintptr_t>(stream) < 65536;
}

uint32_t Cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<uint32_t>(CPU_COUNT(&allowed)) : 1;
}

// A name passed to a stream must outlive it; a program has few kernels.
const char* KeepName(const char* name) {
  static auto* mutex = new std::mutex;
  static auto* names = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  return names->insert(name).first->c_str();
}

class Launch : public std::enable_shared_from_this<Launch> {
 public:
  Launch(const char* name, TwinKernelBody body, uint32_t blocks, const void* args, size_t args_bytes)
      : name_(name), body_(body), blocks_(blocks), args_((args_bytes + sizeof(Unit) - 1) / sizeof(Unit)) {
    if (args_bytes > 0) std::memcpy(args_.data(), args, args_bytes);
  }

  // On the stream's worker, or on the calling thread where the program asked for that: returns when all
  // blocks have finished.
  aclError Run(uint32_t threads) {
    stream_ = Stream::Current();
    const uint32_t helpers = std::min(blocks_, threads) - 1;
    for (uint32_t i = 0; i < helpers; ++i) AddThread();
    DrawBlocks();
    done_.Wait([this] { return ended_.load() == blocks_; });
    if (!failed_) return ACL_SUCCESS;
    std::lock_guard lock(mutex_);
    return Fail(ACL_ERROR_RT_AICORE_EXCEPTION, name_, failure_);
  }

  void AddThread() {
    if (drawn_.load() >= blocks_) return;
    try {
      BlockThreads::Get().Run([self = shared_from_this()] { self->DrawBlocks(); });
    } catch (const std::exception& exception) {
      KeepFailure(Text("no thread for another block: ", exception.what()));
    }
  }

  bool failed() const { return failed_.load() || (stream_ != nullptr && stream_->aborting()); }

  static Launch*& Current() {
    thread_local Launch* current = nullptr;
    return current;
  }

 private:
  struct alignas(std::max_align_t) Unit {
    std::byte bytes[sizeof(std::max_align_t)];
  };

  void DrawBlocks() {
    Current() = this;
    for (uint32_t block = drawn_++; block < blocks_; block = drawn_++) {
      try {
        body_(block, blocks_, args_.data());
      } catch (const std::exception& exception) {
        KeepFailure(Text("block ", block, " of ", blocks_, ": ", exception.what()));
      }
      if (++ended_ == blocks_) done_.Notify();
    }
    Current() = nullptr;
  }

  void KeepFailure(const std::string& text) {
    std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = text;
    failed_ = true;
  }

  const char* name_;
  const TwinKernelBody body_;
  const uint32_t blocks_;
  std::vector<Unit> args_;
  const Stream* stream_ = nullptr;

  std::atomic<uint32_t> drawn_{0};
  std::atomic<uint32_t> ended_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards failure_
  std::string failure_;
  Signal done_;
};

}  // namespace
}  // namespace twin

using twin::Fail;
using twin::FailNull;
using twin::Launch;
using twin::Text;

int twinLaunchKernel(const char* name, uint32_t blocks, void* stream, TwinKernelBody body, const void* args,
                     size_t args_bytes) {
  if (name == nullptr) return FailNull(__func__, "name");
  if (body == nullptr) return FailNull(__func__, "body");
  if (args == nullptr && args_bytes > 0) return FailNull(__func__, "args");
  const char* kept = twin::KeepName(name);
  if (blocks == 0 || blocks > twin::kMostBlocks) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, kept,
                Text("launched with ", blocks, " blocks; wanted 1 to ", twin::kMostBlocks));
  }
  auto launch = std::make_shared<Launch>(kept, body, blocks, args, args_bytes);
  if (twin::IsCallersThreads(stream)) {
    return launch->Run(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream) / 2));
  }
  std::shared_ptr<twin::Stream> found;
  TWIN_TRY(twin::RequireStream(kept, stream, &found));
  return found->Enqueue([launch] { return launch->Run(twin::Cores()); }, kept);
}

void* twinCallersThreads(uint32_t threads) {
  return reinterpret_cast<void*>(uintptr_t{std::clamp(threads, 1u, 32767u)} * 2 + 1);
}

int twinIsAllocated(const void* pointer, size_t bytes) {
  return twin::Locate(pointer, bytes).place == twin::Place::kDeviceNotAllocated ? 0 : 1;
}

void twinBlockWaits(void) {
  if (Launch* launch = Launch::Current(); launch != nullptr) launch->AddThread();
}

int twinLaunchFailed(void) {
  const Launch* launch = Launch::Current();
  return launch != nullptr && launch->failed() ? 1 : 0;
}
