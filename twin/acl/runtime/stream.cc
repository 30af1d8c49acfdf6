// One stream's queue and worker.
#include "twin/acl/runtime/stream.h"

#include <pthread.h>
#include <signal.h>

#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/exception_info.h"

namespace twin {
namespace {

thread_local Stream* current_stream = nullptr;

// Signals sent to the process belong to the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

aclError RunGuarded(const Task& task, const char* what) {
  try {
    return task();
  } catch (const std::bad_alloc&) {
    return Fail(ACL_ERROR_BAD_ALLOC, what, "out of host memory");
  } catch (const std::exception& exception) {
    return Fail(ACL_ERROR_RT_AICORE_EXCEPTION, what, exception.what());
  }
}

}  // namespace

Stream* Stream::Current() { return current_stream; }
void Stream::SetCurrent(Stream* stream) { current_stream = stream; }

aclError TaskError() {
  const Stream* stream = Stream::Current();
  if (stream == nullptr) return ACL_SUCCESS;
  return stream->aborting() ? ACL_ERROR_RT_DEVICE_TASK_ABORT : stream->error();
}

bool TaskAborted() {
  const Stream* stream = Stream::Current();
  return stream != nullptr && stream->aborting();
}

Stream::Stream(std::shared_ptr<Context> context, int device, int32_t id)
    : context_(std::move(context)), device_(device), id_(id) {}

aclError Stream::Enqueue(Task task, const char* what, WhenDropped when_dropped) {
  {
    std::lock_guard lock(mutex_);
    if (closing_) {
      return Fail(ACL_ERROR_RT_INVALID_HANDLE, what, Text("stream ", id_, " has been destroyed"));
    }
    if (aborting_) {
      return Fail(ACL_ERROR_RT_DEVICE_TASK_ABORT, what, Text("the tasks of device ", device_, " are being aborted"));
    }
    if (error_ == ACL_SUCCESS || continue_on_failure_) {
      if (!started_) StartWorker();
      queue_.push_back({std::move(task), what, when_dropped});
      submitted_.fetch_add(1);
      what = nullptr;
    }
  }
  if (what != nullptr) return ReportError(what);
  work_.Notify();
  return ACL_SUCCESS;
}

void Stream::StartWorker() {
  SignalsBlocked blocked;
  // Detached, and kept alive by its own reference: a task that never returns must not hang the thread that
  // destroys the stream.
  std::thread([self = shared_from_this()] { self->Work(); }).detach();
  started_ = true;
  running_ = true;
}

void Stream::Work() {
  current_stream = this;
  pthread_setname_np(pthread_self(), ("twin-stream-" + std::to_string(id_ % 1000)).c_str());
  for (;;) {
    work_.Wait([this] { return submitted_.load() != completed_.load() || stop_.load(); });
    Item item;
    {
      std::lock_guard lock(mutex_);
      if (queue_.empty()) break;  // stop_ is set and all work is done
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    Execute(std::move(item));
  }
  running_ = false;
  done_.Notify();
}

void Stream::Execute(Item item) {
  const bool dropped = aborting_ || (error_ != ACL_SUCCESS && !continue_on_failure_);
  if (!dropped || item.when_dropped == WhenDropped::kRun) {
    const aclError result = RunGuarded(item.task, item.what);
    if (result != ACL_SUCCESS && !aborting_) KeepError(result, item.what);
  }
  item.task = nullptr;  // release what it holds before the work counts as done
  completed_.fetch_add(1);
  done_.Notify();
}

void Stream::KeepError(aclError code, const char* what) {
  const std::string words = TakeThreadErrors();
  {
    std::lock_guard lock(mutex_);
    if (error_ != ACL_SUCCESS) return;
    error_text_ = Text("stream ", id_, " of device ", device_, ": ", what, " failed with error ", code,
                       words.empty() ? "" : ": ", words);
    error_ = code;
  }
  NotifyException({.task_id = static_cast<uint32_t>(completed_.load()),
                   .stream_id = static_cast<uint32_t>(id_),
                   .device_id = static_cast<uint32_t>(device_),
                   .code = static_cast<uint32_t>(code)});
}

aclError Stream::ReportError(const char* function) {
  std::string text;
  aclError code = ACL_SUCCESS;
  {
    std::lock_guard lock(mutex_);
    code = error_;
    if (code == ACL_SUCCESS) return ACL_SUCCESS;
    text = error_text_;
    if (continue_on_failure_) error_ = ACL_SUCCESS;
  }
  return Fail(code, function, text);
}

aclError Stream::Synchronize(const char* function, Signal::Clock::time_point deadline) {
  const uint64_t target = submitted_.load();
  const uint64_t aborts_before = aborts_.load();
  const auto aborted = [&] { return aborts_.load() != aborts_before; };
  const bool ended = done_.Wait([&] { return completed_.load() >= target || aborted(); }, deadline);
  if (aborted()) {
    return Fail(ACL_ERROR_RT_DEVICE_TASK_ABORT, function, Text("the tasks of stream ", id_, " were aborted"));
  }
  if (!ended) {
    return Fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, function,
                Text("stream ", id_, " of device ", device_, " still had ", target - completed_.load(),
                     " tasks to run when the timeout expired"));
  }
  return error_ == ACL_SUCCESS ? ACL_SUCCESS : ReportError(function);
}

bool Stream::Abort(Signal::Clock::time_point deadline) {
  {
    std::lock_guard lock(mutex_);
    if (!idle()) aborts_.fetch_add(1);
    aborting_ = true;
  }
  done_.Notify();
  const bool gave_up = done_.Wait([this] { return idle(); }, deadline);
  if (gave_up) {
    std::lock_guard lock(mutex_);
    error_ = ACL_SUCCESS;
    aborting_ = false;
  }
  return gave_up;
}

void Stream::Close() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    stop_ = true;
  }
  work_.Notify();
  constexpr std::chrono::seconds kPatience{5};
  done_.Wait([this] { return !running_.load(); }, Signal::Clock::now() + kPatience);
}

}  // namespace twin
