// When a waiting operation gives up, and with which message.
#include "twin/hccl/data_path/waiter.h"

#include "twin/acl/internal.h"
#include "twin/hccl/failure.h"

namespace twin {
namespace {

std::string RankList(const Group& group, const std::vector<uint32_t>& ranks) {
  std::string text;
  for (const uint32_t rank : ranks) text += (text.empty() ? "" : ", ") + Describe(group.peers[rank]);
  return text.empty() ? "no rank in particular" : text;
}

}  // namespace

void ThrowIfFailed(const DataPath& path, const Operation& operation) {
  const Group& group = path.group();
  if (TaskAborted())
    throw HcclFailure(HCCL_E_INTERNAL, DescribeOperation(operation, group.name) + " was aborted with its stream");
  if (const HcclResult code = group.failure(); code != HCCL_SUCCESS)
    throw HcclFailure(code, DescribeOperation(operation, group.name) + " ended: " + group.failure_text());
}

bool Waiter::TimedOut() const {
  const double limit_s = path_.group().options.exec_timeout_s;
  return limit_s > 0 && std::chrono::duration<double>(Clock::now() - start_).count() > limit_s;
}

void Waiter::ThrowTimeout(const std::vector<uint32_t>& missing) const {
  const Group& group = path_.group();
  throw HcclFailure(HCCL_E_TIMEOUT, DescribeOperation(operation_, group.name) + " on rank " +
                                        std::to_string(group.rank) + " waited " +
                                        std::to_string(group.options.exec_timeout_s) + " s (HCCL_EXEC_TIMEOUT) for " +
                                        RankList(group, missing));
}

void Waiter::ThrowIfLeft(const std::vector<uint32_t>& missing) {
  const Group& group = path_.group();
  for (const uint32_t rank : missing) {
    if (!group.has_left(rank)) continue;
    if (!group.peers[rank].same_host && !path_.link(rank).at_end()) continue;
    // What it did before leaving may have arrived after our last check: the caller checks once more first.
    if (!saw_departure_) {
      saw_departure_ = true;
      return;
    }
    throw HcclFailure(HCCL_E_REMOTE, DescribeOperation(operation_, group.name) + " on rank " +
                                         std::to_string(group.rank) + ": " + Describe(group.peers[rank]) +
                                         " destroyed its communicator without taking part");
  }
}

}  // namespace twin
