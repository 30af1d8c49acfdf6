// The thread's core, and waiting for other blocks.
#include "twin/ascendc/include/ascendc/core.h"

#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "twin/ascendc/include/ascendc/checker.h"
#include "twin/include/twin/launch.h"

namespace twin::ascendc {
namespace {

struct ThreadCore {
  ThreadCore() : ub(static_cast<uint8_t*>(std::aligned_alloc(kRepeatBytes, kUbBytes)), std::free) {}
  std::unique_ptr<uint8_t, void (*)(void*)> ub;
  std::unique_ptr<Checker> checker;
  Core core;
};

ThreadCore& OfThread() {
  thread_local ThreadCore core;
  return core;
}

}  // namespace

Core& ThisCore() { return OfThread().core; }

void BeginBlock(const char* kernel, uint32_t block, uint32_t blocks, LaunchShared* shared, bool checked) {
  ThreadCore& thread = OfThread();
  if (thread.ub == nullptr) Fail(kernel, "no memory for a core's buffer", nullptr, 0);
  thread.core = Core{.kernel = kernel,
                     .block = block,
                     .blocks = blocks,
                     .shared = shared,
                     .ub = thread.ub.get(),
                     .mask = {~uint64_t{0}, ~uint64_t{0}}};
  if (!checked) return;
  if (thread.checker == nullptr) thread.checker = std::make_unique<Checker>();
  thread.core.checker = thread.checker.get();
  thread.checker->Begin(thread.core);
}

void EndBlock() {
  if (Checker* checker = ThisCore().checker; checker != nullptr) checker->End();
}

void Fail(const char* function, const std::string& text, const char* file, int line) {
  std::string whole = std::string(function) + ": " + text;
  if (file != nullptr) whole += " (" + std::string(file) + ":" + std::to_string(line) + ")";
  throw std::runtime_error(whole);
}

void WaitFor(const char* function, const uint32_t* counter, uint32_t wanted) {
  const auto reached = [&] {
    const uint32_t now = std::atomic_ref(*const_cast<uint32_t*>(counter)).load();
    return static_cast<int32_t>(now - wanted) >= 0;
  };
  if (reached()) return;
  twinBlockWaits();
  while (!reached()) {
    if (twinLaunchFailed() != 0) Fail(function, "gave up waiting: another block has failed", nullptr, 0);
    sched_yield();
  }
}

void Increment(uint32_t* counter) { std::atomic_ref(*counter).fetch_add(1); }

}  // namespace twin::ascendc
