// MpiWaits: which MPI call this rank is in, and for how long. MPI itself waits silently, forever. While a
// hang watch is attached, its ledger records the calls and its reports name all ranks; before and after
// (MPI_Init, reading data, converting, MPI_Finalize) a thread of this rank reports what it waits for. It
// never ends anything.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/comm/ledger.h"

namespace trireme {

class MpiWaits {
 public:
  // The environment's TRIREME_HANG_REPORT_SECONDS, 60 if unset; 0: never. A run's configuration is not
  // read yet when MPI starts.
  static double DefaultLimit_s();

  // Each line starts with `who`. An empty `print` means standard error.
  MpiWaits(std::string who, double limit_s, std::function<void(const std::string&)> print = {});
  ~MpiWaits();
  MpiWaits(const MpiWaits&) = delete;
  MpiWaits& operator=(const MpiWaits&) = delete;

  void set_who(const std::string& who);
  void set_limit(double limit_s);  // 0: never

  // Scoped around one call, on the thread that makes it. `everyone`: all ranks make the same call.
  class Call {
   public:
    Call(MpiWaits* waits, const char* operation, bool everyone = true);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    MpiWaits* const waits_;
    const bool everyone_;
  };

  // From now on the ledger records the calls of all ranks, as group kMpiGroup over `world` ranks. Collective,
  // between calls. Detach before the ledger is destroyed.
  void Attach(Ledger* ledger, int world);
  void Detach(const Ledger* ledger);

 private:
  using Clock = std::chrono::steady_clock;

  struct Listener {
    Ledger* ledger = nullptr;
    int group = 0;
    uint64_t sequence = 0;
  };

  void Begin(const char* operation, bool everyone);
  void End(bool everyone);
  void Look();
  void SayIfDue();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string who_;
  double limit_s_;
  const std::function<void(const std::string&)> print_;
  std::vector<Listener> listeners_;
  const char* operation_ = nullptr;  // the call that no hang watch covers; null: none
  Clock::time_point since_;
  double say_after_s_ = 0;  // doubles with every line
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace trireme
