// Signals that ask a run to stop: SIGINT, SIGTERM, and SIGUSR1, which mpirun forwards to every rank; on the
// other two it kills the ranks a second later. The first signal is recorded; a later one ends the process at
// once. How a run stops is up to the run.
#pragma once

#include <signal.h>

#include <array>

namespace trireme {

class StopSignals {
 public:
  // Handles the signals until it is destroyed; one instance at a time. `speaks`: acknowledge the first one on
  // stderr.
  explicit StopSignals(bool speaks);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

// Whether a signal arrived since StopSignals was constructed.
bool StopRequested();

}  // namespace trireme
