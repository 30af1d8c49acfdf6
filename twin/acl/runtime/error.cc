// Recent error messages and the last error code, per thread, and the messages of the runtime's own threads,
// which any thread may collect.
#include "twin/acl/runtime/error.h"

#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "twin/acl/internal.h"
#include "twin/acl/runtime/per_thread.h"

namespace twin {
namespace {

// Enough to see what led up to a failure; bounded, since a program may never ask.
constexpr size_t kKeptMessages = 16;

class Messages {
 public:
  void Add(const std::string& message) {
    kept_.push_back(message);
    if (kept_.size() > kKeptMessages) kept_.pop_front();
  }

  std::string Take() {
    std::string all;
    for (const std::string& message : kept_) {
      if (!all.empty()) all += '\n';
      all += message;
    }
    kept_.clear();
    return all;
  }

 private:
  std::deque<std::string> kept_;
};

struct ThreadErrors {
  Messages messages;
  std::string handed_out;  // what aclGetRecentErrMsg returned, valid until its next call
  aclError last = ACL_SUCCESS;
};

ThreadErrors& Mine() { return PerThread<ThreadErrors>(); }

// Every thread's messages with their thread, so that a thread reading its own does not consume another's.
class ProcessErrors {
 public:
  void Add(const std::string& message) {
    std::lock_guard lock(mutex_);
    kept_.emplace_back(std::this_thread::get_id(), message);
    if (kept_.size() > kKeptMessages) kept_.pop_front();
  }

  void ForgetMine() {
    std::lock_guard lock(mutex_);
    std::erase_if(kept_, [](const auto& entry) { return entry.first == std::this_thread::get_id(); });
  }

  std::string TakeOthers() {
    std::lock_guard lock(mutex_);
    Messages all;
    for (const auto& [author, message] : kept_) all.Add(message);
    kept_.clear();
    return all.Take();
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<std::thread::id, std::string>> kept_;
};

ProcessErrors& Everyones() {
  static auto* errors = new ProcessErrors;  // never destroyed: threads may still run at exit
  return *errors;
}

}  // namespace

void SetRecentError(const std::string& message) {
  Mine().messages.Add(message);
  Everyones().Add(message);
}

std::string TakeThreadErrors() { return Mine().messages.Take(); }

aclError Fail(aclError code, const char* function, const std::string& text) {
  SetRecentError(Text(function, ": ", text, " (error ", code, ")"));
  Mine().last = code;
  return code;
}

aclError FailNull(const char* function, const char* argument) {
  return Fail(ACL_ERROR_INVALID_PARAM, function, Text(argument, " is null; wanted a pointer"));
}

aclError FailUnsupported(const char* function, const char* why) {
  return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function, Text("not supported by the CANN twin: ", why));
}

}  // namespace twin

using twin::Everyones;
using twin::Mine;

// The thread's own messages first; a thread without any gets what others last reported. Reading consumes
// them.
const char* aclGetRecentErrMsg() {
  twin::ThreadErrors& mine = Mine();
  mine.handed_out = mine.messages.Take();
  Everyones().ForgetMine();
  if (mine.handed_out.empty()) mine.handed_out = Everyones().TakeOthers();
  return mine.handed_out.empty() ? nullptr : mine.handed_out.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) {
    return twin::Fail(ACL_ERROR_INVALID_PARAM, __func__,
                      twin::Text("level is ", static_cast<int>(level), "; wanted ACL_RT_THREAD_LEVEL"));
  }
  return Mine().last;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  const aclError last = aclrtPeekAtLastError(level);
  Mine().last = ACL_SUCCESS;
  return last;
}
