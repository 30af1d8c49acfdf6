// Stream: an in-order queue of tasks with one worker thread, started by the first task. What a task does, and
// ACL's rules about who may use which stream, are not its job.
//
// After a task has failed, the error stays with the stream and the tasks queued after it are dropped: the
// default, and ACL_STOP_ON_FAILURE. If the program set ACL_CONTINUE_ON_FAILURE, the rest runs and the next
// synchronisation reports the error once.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "twin/acl/internal.h"
#include "twin/common/signal.h"

namespace twin {

class Context;

enum class WhenDropped { kSkip, kRun };  // kRun: for tasks that others wait for; they read the error from TaskError()

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<Context> context, int device, int32_t id);

  aclError Enqueue(Task task, const char* what, WhenDropped when_dropped = WhenDropped::kSkip);

  // Waits until everything queued so far is done. ACL_ERROR_RT_STREAM_SYNC_TIMEOUT at the deadline.
  aclError Synchronize(const char* function, Signal::Clock::time_point deadline = Signal::kNever);

  bool idle() const { return completed_.load() == submitted_.load(); }
  aclError error() const { return error_.load(); }

  // Copies the failed task's message to the calling thread and returns its code (ACL_SUCCESS: nothing
  // failed).
  aclError ReportError(const char* function);

  // Drops what is queued and tells the running task to give up; at the deadline a task may still run. Threads
  // that synchronise meanwhile get ACL_ERROR_RT_DEVICE_TASK_ABORT. The stream is usable again afterwards.
  bool Abort(Signal::Clock::time_point deadline);

  // Ends the worker once it is idle. Nothing may be queued afterwards.
  void Close();

  void set_failure_mode(uint64_t mode) { continue_on_failure_.store(mode == ACL_CONTINUE_ON_FAILURE); }

  const std::shared_ptr<Context>& context() const { return context_; }
  int device() const { return device_; }
  int32_t id() const { return id_; }

  // State that other parts attach to a stream.
  std::atomic<uint32_t> overflow_switch{0};
  std::atomic<bool> launched_host_function{false};

  // The stream whose task the calling thread is running, nullptr on a thread of the program.
  static Stream* Current();
  static void SetCurrent(Stream* stream);

  // True while the running task should give up.
  bool aborting() const { return aborting_.load(); }

 private:
  struct Item {
    Task task;
    const char* what;
    WhenDropped when_dropped;
  };

  void StartWorker();
  void Work();
  void Execute(Item item);
  void KeepError(aclError code, const char* what);

  const std::shared_ptr<Context> context_;
  const int device_;
  const int32_t id_;

  std::mutex mutex_;  // guards queue_, started_, closing_, error_text_
  std::deque<Item> queue_;
  bool started_ = false;
  bool closing_ = false;
  std::string error_text_;

  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> aborts_{0};
  std::atomic<aclError> error_{ACL_SUCCESS};
  std::atomic<bool> continue_on_failure_{false};
  std::atomic<bool> aborting_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> running_{false};

  Signal work_;  // wakes the worker
  Signal done_;  // wakes threads that synchronise
};

// Within a task that runs although its stream has failed or is being aborted: the reason. ACL_SUCCESS
// otherwise.
aclError TaskError();

}  // namespace twin
