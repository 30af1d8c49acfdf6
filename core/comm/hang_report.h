// From the states of all ranks to the text that states who waits for whom: the cause first, then its
// consequences. A pure function; gathering the states is watch_channel.h's work.
#pragma once

#include <string>
#include <vector>

#include "core/comm/ledger.h"

namespace trireme {

// The group under which a ledger records MPI calls: all ranks, and not HCCL's.
constexpr char kMpiGroup[] = "mpi";

struct HangReport {
  std::string text;   // human-readable lines; empty: nothing waits longer than the limit
  std::string cause;  // group, operation and number of the first entry: equal while the hang is the same
};

// Whether a call of this rank has waited for its peers for at least that long.
bool WaitsLongerThan(const RankState& state, double limit_s);

// What a rank knows on its own when rank 0 does not answer; empty if nothing waits longer than the limit.
std::string OwnHangReport(const RankState& state, double limit_s);

// `states` holds one entry for each rank, in order.
HangReport MakeHangReport(const std::vector<RankState>& states, double limit_s);

}  // namespace trireme
