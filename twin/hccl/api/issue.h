// From a checked call to a task on its stream. What the task does is elsewhere.
#pragma once

#include <functional>

#include "twin/hccl/data_path/operation.h"
#include "twin/hccl/membership/group.h"

namespace twin {

// Held while a call of one device is being issued: HCCL requires the calls of a device, of any communicator,
// to be serial. A concurrent second one throws HcclFailure naming both.
class IssueGuard {
 public:
  IssueGuard(int device, const char* call);
  ~IssueGuard();
  IssueGuard(const IssueGuard&) = delete;
  IssueGuard& operator=(const IssueGuard&) = delete;

 private:
  int device_;
};

// Looks up the communicator, takes the guard, lets `describe` check and describe the call, and queues it.
HcclResult IssueCall(OperationKind kind, HcclComm comm, aclrtStream stream,
                     const std::function<void(const Group&, Operation&)>& describe);

// Runs an operation as its task does: a failure becomes the group's, the thread's error message and the
// task's result.
aclError RunAsTask(Group& group, const Operation& operation);

}  // namespace twin
