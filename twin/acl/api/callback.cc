// Callbacks on a thread of the program (aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport) and
// host functions on a thread of the runtime (aclrtLaunchHostFunc). A stream may use one mechanism or the
// other, not both.
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

namespace twin {
namespace {

// One callback for the program's thread. With ACL_CALLBACK_BLOCK the stream waits for `state`.
struct Report {
  enum State { kWaiting, kDone, kDropped };
  aclrtCallback function;
  void* argument;
  int32_t stream_id;
  std::atomic<State> state{kWaiting};
  Signal signal;

  void Finish(State final_state) {
    state = final_state;
    signal.Notify();
  }
};

// Which thread processes which stream's reports, and the pending reports.
class ReportDesk {
 public:
  static ReportDesk& Get() {
    static auto* desk = new ReportDesk;
    return *desk;
  }

  bool Subscribe(uint64_t thread, int32_t stream_id) {
    std::lock_guard lock(mutex_);
    if (!thread_of_.emplace(stream_id, thread).second) return false;
    ++streams_of_[thread];
    changed_.notify_all();
    return true;
  }

  bool Unsubscribe(uint64_t thread, int32_t stream_id) {
    std::lock_guard lock(mutex_);
    const auto found = thread_of_.find(stream_id);
    if (found == thread_of_.end() || found->second != thread) return false;
    thread_of_.erase(found);
    if (--streams_of_[thread] == 0) streams_of_.erase(thread);
    std::erase_if(waiting_[thread], [stream_id](const std::shared_ptr<Report>& report) {
      if (report->stream_id == stream_id) report->Finish(Report::kDropped);
      return report->stream_id == stream_id;
    });
    changed_.notify_all();
    return true;
  }

  bool Subscribed(int32_t stream_id) {
    std::lock_guard lock(mutex_);
    return thread_of_.count(stream_id) == 1;
  }

  void Post(const std::shared_ptr<Report>& report) {
    std::lock_guard lock(mutex_);
    const auto found = thread_of_.find(report->stream_id);
    if (found == thread_of_.end()) return report->Finish(Report::kDropped);
    waiting_[found->second].push_back(report);
    changed_.notify_all();
  }

  // ACL_ERROR_RT_THREAD_SUBSCRIBE if the thread processes no stream, ACL_ERROR_RT_REPORT_TIMEOUT if no report
  // arrived.
  aclError Take(uint64_t thread, int32_t timeout_ms, std::shared_ptr<Report>* report) {
    std::unique_lock lock(mutex_);
    const auto came = [&] { return !waiting_[thread].empty(); };
    // A thread may start processing before it is subscribed, so that counts as waiting too; a thread whose
    // last stream has been unsubscribed is told at once.
    const bool was_subscribed = streams_of_.count(thread) == 1;
    const auto ended = [&] { return came() || (was_subscribed && streams_of_.count(thread) == 0); };
    if (timeout_ms < 0) {
      changed_.wait(lock, ended);
    } else {
      changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), ended);
    }
    if (!came()) return streams_of_.count(thread) == 0 ? ACL_ERROR_RT_THREAD_SUBSCRIBE : ACL_ERROR_RT_REPORT_TIMEOUT;
    *report = waiting_[thread].front();
    waiting_[thread].pop_front();
    return ACL_SUCCESS;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int32_t, uint64_t> thread_of_;
  std::map<uint64_t, int> streams_of_;
  std::map<uint64_t, std::deque<std::shared_ptr<Report>>> waiting_;
};

aclError RunReport(const std::shared_ptr<Report>& report, aclrtCallbackBlockType block) {
  ReportDesk::Get().Post(report);
  if (block == ACL_CALLBACK_BLOCK) {
    report->signal.Wait([&] { return report->state != Report::kWaiting || TaskAborted(); }, Signal::kNever,
                        std::chrono::milliseconds(10));
  }
  if (report->state != Report::kDropped) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "aclrtLaunchCallback",
              "the stream was unsubscribed before its callback could run");
}

}  // namespace
}  // namespace twin

using twin::Fail;
using twin::FailNull;
using twin::Report;
using twin::ReportDesk;
using twin::Stream;
using twin::Text;

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  if (found->launched_host_function) {
    return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, __func__,
                Text("stream ", found->id(), " uses aclrtLaunchHostFunc; a stream cannot use both mechanisms"));
  }
  if (ReportDesk::Get().Subscribe(threadId, found->id())) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, __func__, Text("stream ", found->id(), " is already subscribed"));
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  if (ReportDesk::Get().Unsubscribe(threadId, found->id())) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, __func__,
              Text("stream ", found->id(), " is not subscribed to thread ", threadId));
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
  if (fn == nullptr) return FailNull(__func__, "fn");
  if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown block type ", static_cast<int>(blockType)));
  }
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  if (!ReportDesk::Get().Subscribed(found->id())) {
    return Fail(ACL_ERROR_RT_STREAM_NO_CB_REG, __func__,
                Text("no thread processes the reports of stream ", found->id(), "; call aclrtSubscribeReport first"));
  }
  auto report = std::make_shared<Report>();
  report->function = fn;
  report->argument = userData;
  report->stream_id = found->id();
  return found->Enqueue([report, blockType] { return RunReport(report, blockType); }, __func__);
}

aclError aclrtProcessReport(int32_t timeout) {
  if (timeout < -1 || timeout == 0) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("timeout is ", timeout, "; wanted -1 or milliseconds"));
  }
  std::shared_ptr<Report> report;
  const aclError taken = ReportDesk::Get().Take(pthread_self(), timeout, &report);
  if (taken == ACL_ERROR_RT_THREAD_SUBSCRIBE) {
    return Fail(taken, __func__, "no stream is subscribed to this thread; call aclrtSubscribeReport first");
  }
  if (taken != ACL_SUCCESS) return Fail(taken, __func__, Text("no report arrived within ", timeout, " ms"));
  report->function(report->argument);
  report->Finish(Report::kDone);
  return ACL_SUCCESS;
}

// Runs on the stream's worker, which has no context: as on a device, a host function cannot call back into
// ACL.
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  if (fn == nullptr) return FailNull(__func__, "fn");
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  if (ReportDesk::Get().Subscribed(found->id())) {
    return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, __func__,
                Text("stream ", found->id(), " is subscribed for callbacks; a stream cannot use both mechanisms"));
  }
  found->launched_host_function = true;
  return found->Enqueue(
      [fn, args] {
        fn(args);
        return ACL_SUCCESS;
      },
      __func__);
}
