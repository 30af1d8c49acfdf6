// Both halves of the verifier, in order: messages are played only if each rank is correct by itself.
#include "parallel/schedule/verify.h"

#include "core/base/error.h"

namespace trireme {

std::optional<std::string> FindFault(const Schedule& schedule) {
  const int ranks = static_cast<int>(schedule.ranks.size());
  if (ranks != schedule.placement.ranks) {
    return Concat("the table has ", ranks, " ranks; its placement has ", schedule.placement.ranks);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (std::optional<std::string> fault = FindRankFault(schedule, rank)) return fault;
  }
  return FindMessageFault(schedule);
}

}  // namespace trireme
