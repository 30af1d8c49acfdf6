// Forward only, for evaluation: as many micro batches as there are ranks pass all chunks before the next ones
// start, so that few activations wait between two chunks of a rank, however many micro batches there are.
#include <algorithm>

#include "core/base/error.h"
#include "parallel/schedule/insert_messages.h"
#include "parallel/schedule/insert_parameters.h"
#include "parallel/schedule/schedules.h"
#include "parallel/schedule/verify.h"

namespace trireme {
namespace {

std::vector<Action> ForwardsOf(const StagePlacement& placement, int micro_batches) {
  std::vector<Action> forwards;
  for (int first = 0; first < micro_batches; first += placement.ranks) {
    const int last = std::min(first + placement.ranks, micro_batches);
    for (int chunk = 0; chunk < placement.chunks; ++chunk) {
      for (int i = first; i < last; ++i) forwards.push_back({.micro_batch = i, .chunk = chunk});
    }
  }
  return forwards;
}

}  // namespace

Schedule MakeForwardSchedule(const StagePlacement& placement, int micro_batches, int zero) {
  ComputeOrder order{placement, micro_batches, {}};
  for (int rank = 0; rank < placement.ranks; ++rank) {
    order.ranks.push_back(ForwardsOf(placement, micro_batches));
  }
  Schedule schedule = InsertMessages("forward only", order);
  schedule.forward_only = true;
  schedule = InsertParameterActions(std::move(schedule), zero);
  const std::optional<std::string> fault = FindFault(schedule);
  TRIREME_CHECK(!fault) << "forward only, " << placement.ranks << " ranks, " << micro_batches << " micro batches, "
                        << placement.chunks << " chunks: " << *fault;
  return schedule;
}

}  // namespace trireme
