// Signals that ask a run to stop: SIGINT, SIGTERM, and SIGUSR1, which mpirun hands on to every rank, while it
// answers the other two by killing the ranks a second later. The first one is noted; one that comes later
// ends the process at once. How a run stops is its own business.
#pragma once

#include <signal.h>

#include <array>

namespace trireme {

class StopSignals {
 public:
  // Takes the signals over until it is destroyed; one at a time. `speaks`: the first one is answered on
  // stderr.
  explicit StopSignals(bool speaks);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

// Whether one came since StopSignals took them over.
bool StopRequested();

}  // namespace trireme
