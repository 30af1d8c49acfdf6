// Notifies: a flag that one stream sets and another waits for and clears. Not a counter: two records before
// one wait count as one.
#include <atomic>
#include <memory>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

namespace twin {
namespace {

struct Notify {
  uint32_t id = 0;
  std::atomic<bool> set{false};
  Signal signal;
};

Registry<Notify>& notifies() {
  static auto* all = new Registry<Notify>(0x534E'0000'0000);
  return *all;
}

aclError RequireNotify(const char* function, aclrtNotify handle, std::shared_ptr<Notify>* notify) {
  if (handle == nullptr) return FailNull(function, "notify");
  *notify = notifies().Find(handle);
  if (*notify != nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_INVALID_HANDLE, function, Text(handle, " is not a live notify"));
}

// `limit_s` 0: no limit.
aclError WaitAndClear(Notify& notify, uint32_t limit_s) {
  const Signal::Clock::time_point deadline =
      limit_s == 0 ? Signal::kNever : Signal::Clock::now() + std::chrono::seconds(limit_s);
  const bool came = notify.signal.Wait([&] { return notify.set.exchange(false) || TaskAborted(); }, deadline,
                                       std::chrono::milliseconds(10));
  if (came) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_TASK_TIMEOUT, "aclrtWaitAndResetNotify",
              Text("notify ", notify.id, " was not recorded within ", limit_s, " s"));
}

}  // namespace
}  // namespace twin

using twin::FailNull;
using twin::Notify;
using twin::RequireNotify;
using twin::Stream;

aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flag) {
  if (notify == nullptr) return FailNull(__func__, "notify");
  std::shared_ptr<twin::Context> context;
  TWIN_TRY(twin::RequireContext(__func__, &context));
  if (flag != 0) return twin::FailUnsupported(__func__, "flag must be 0");
  static std::atomic<uint32_t> next_id{0};
  auto made = std::make_shared<Notify>();
  made->id = next_id++;
  *notify = twin::notifies().Add(std::move(made));
  return ACL_SUCCESS;
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
  std::shared_ptr<Notify> found;
  TWIN_TRY(RequireNotify(__func__, notify, &found));
  twin::notifies().Remove(notify);
  return ACL_SUCCESS;
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
  std::shared_ptr<Notify> found;
  TWIN_TRY(RequireNotify(__func__, notify, &found));
  std::shared_ptr<Stream> on;
  TWIN_TRY(twin::RequireStream(__func__, stream, &on));
  return on->Enqueue(
      [found] {
        found->set = true;
        found->signal.Notify();
        return ACL_SUCCESS;
      },
      __func__);
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
  std::shared_ptr<Notify> found;
  TWIN_TRY(RequireNotify(__func__, notify, &found));
  std::shared_ptr<Stream> on;
  TWIN_TRY(twin::RequireStream(__func__, stream, &on));
  return on->Enqueue([found, timeout] { return twin::WaitAndClear(*found, timeout); }, __func__);
}

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t* notifyId) {
  if (notifyId == nullptr) return FailNull(__func__, "notifyId");
  std::shared_ptr<Notify> found;
  TWIN_TRY(RequireNotify(__func__, notify, &found));
  *notifyId = found->id;
  return ACL_SUCCESS;
}
