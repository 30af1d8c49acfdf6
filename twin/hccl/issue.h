// From a checked call to a task on its stream. What the task does is elsewhere.
#pragma once

#include <functional>

#include "twin/hccl/group.h"
#include "twin/hccl/operation.h"

namespace twin {

// Held while a call of one device is being issued: HCCL wants all calls of a device, of whatever
// communicator, one after the other. A second one at the same time throws HcclFailure naming both.
class IssueGuard {
 public:
  IssueGuard(int device, const char* call);
  ~IssueGuard();
  IssueGuard(const IssueGuard&) = delete;
  IssueGuard& operator=(const IssueGuard&) = delete;

 private:
  int device_;
};

// Looks the communicator up, takes the guard, lets `describe` check the call and say what it is, and queues
// it.
HcclResult IssueCall(OperationKind kind, HcclComm comm, aclrtStream stream,
                     const std::function<void(const Group&, Operation&)>& describe);

// Runs an operation as its task does: failures become the group's, the thread's error text and the task's
// result.
aclError RunAsTask(Group& group, const Operation& operation);

}  // namespace twin
