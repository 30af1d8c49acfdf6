// From the states of all ranks to the text that says who waits for whom: the cause first, what follows from
// it after. A pure function; gathering the states is watch_channel.h's work.
#pragma once

#include <string>
#include <vector>

#include "core/comm/ledger.h"

namespace trireme {

// The group under which a ledger has the calls of MPI: all ranks, and not HCCL's.
constexpr char kMpiGroup[] = "mpi";

struct HangReport {
  std::string text;   // lines for people; empty: nothing waits longer than the limit
  std::string cause;  // group, operation and number of the first entry: equal while the hang is the same
};

// Whether a call of this rank has waited for its peers for at least so long.
bool WaitsLongerThan(const RankState& state, double limit_s);

// What a rank knows by itself, where rank 0 does not answer it; empty where nothing waits longer than the limit.
std::string OwnHangReport(const RankState& state, double limit_s);

// `states` holds one entry for each rank, in order.
HangReport MakeHangReport(const std::vector<RankState>& states, double limit_s);

}  // namespace trireme
