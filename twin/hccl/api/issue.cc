// Queueing, and failure handling: a failure fails the group and becomes the stream's sticky error.
#include "twin/hccl/api/issue.h"

#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "twin/acl/internal.h"
#include "twin/hccl/api/checks.h"
#include "twin/hccl/data_path/data_path.h"
#include "twin/hccl/failure.h"

namespace twin {
namespace {

constexpr int kMaxDevices = 1024;
constexpr aclError kSuspectRemoteError = 507057;  // what the runtime reports for a failed peer; not in these headers

std::array<std::atomic<const char*>, kMaxDevices>& CallsBeingIssued() {
  static std::array<std::atomic<const char*>, kMaxDevices> calls{};
  return calls;
}

aclError TaskError(HcclResult code) {
  switch (code) {
    case HCCL_E_REMOTE:
    case HCCL_E_TCP_TRANSFER:
      return kSuspectRemoteError;
    case HCCL_E_TIMEOUT:
      return ACL_ERROR_RT_AICORE_TIMEOUT;
    case HCCL_E_INTERNAL:
      return ACL_ERROR_RT_INTERNAL_ERROR;
    default:
      return ACL_ERROR_RT_AICORE_EXCEPTION;
  }
}

// The first failure becomes the group's, which also informs the program; later ones affect only their stream.
aclError Report(Group& group, HcclResult code, const std::string& text) {
  if (group.failure() == HCCL_SUCCESS) {
    group.Fail(code, text);
  } else {
    SetRecentError(text);
  }
  return TaskError(code);
}

// An issued operation. Counts as in flight until it has run or, if its stream drops it, until it is
// destroyed.
class Pending {
 public:
  Pending(Group& group, Operation operation) : group_(&group), operation_(std::move(operation)) {
    group_->in_flight.fetch_add(1);
  }
  ~Pending() { Leave(); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  const Operation& operation() const { return operation_; }

  aclError Run() {
    const aclError result = RunAsTask(*group_, operation_);
    Leave();
    return result;
  }

 private:
  void Leave() {
    if (Group* group = std::exchange(group_, nullptr)) group->in_flight.fetch_sub(1);
  }

  Group* group_;
  Operation operation_;
};

void Queue(Group& group, Operation operation, aclrtStream stream) {
  if (!group.data_path) group.data_path = std::make_shared<DataPath>(group);
  group.data_path->Number(operation);
  group.issued.fetch_add(1);
  const char* name = CallName(operation.kind);
  auto pending = std::make_shared<Pending>(group, std::move(operation));
  const aclError error = Enqueue(stream, [pending] { return pending->Run(); }, name);
  if (error == ACL_SUCCESS) return;
  group.data_path->Withdraw(pending->operation());
  throw HcclFailure(HCCL_E_RUNTIME, "the stream did not accept the operation: ACL error " + std::to_string(error));
}

}  // namespace

IssueGuard::IssueGuard(int device, const char* call) : device_(device) {
  const char* expected = nullptr;
  if (CallsBeingIssued().at(device).compare_exchange_strong(expected, call)) return;
  throw HcclFailure(HCCL_E_UNAVAIL, std::string(call) + " was called while another thread was in " + expected +
                                        " on device " + std::to_string(device) +
                                        "; the calls of one device must be serialised");
}

IssueGuard::~IssueGuard() { CallsBeingIssued()[device_].store(nullptr); }

aclError RunAsTask(Group& group, const Operation& operation) {
  DataPath& path = *group.data_path;
  try {
    path.Begin(operation);
    RunOperation(path, operation);
    path.End(operation);
    return ACL_SUCCESS;
  } catch (const HcclFailure& failure) {
    path.End(operation);
    return Report(group, failure.code(), failure.what());
  } catch (const std::exception& failure) {
    path.End(operation);
    return Report(group, HCCL_E_INTERNAL, DescribeOperation(operation, group.name) + ": " + failure.what());
  }
}

HcclResult IssueCall(OperationKind kind, HcclComm comm, aclrtStream stream,
                     const std::function<void(const Group&, Operation&)>& describe) {
  return Answer(CallName(kind), [&] {
    NeedPointer(comm, "comm");
    Group* group = FindGroup(comm);
    if (group == nullptr) throw HcclFailure(HCCL_E_PARA, "comm is not a live communicator");
    const IssueGuard guard(group->device, CallName(kind));
    CheckStream(*group, stream);
    Operation operation;
    operation.kind = kind;
    describe(*group, operation);
    CheckBuffers(*group, operation);
    CheckOwnBlock(operation, group->rank);
    CheckOverlap(*group, operation);
    CheckMessages(*group, operation);
    if (const HcclResult code = group->failure(); code != HCCL_SUCCESS)
      throw HcclFailure(code, "the communicator '" + group->name + "' has already failed: " + group->failure_text());
    Queue(*group, std::move(operation), stream);
  });
}

}  // namespace twin
