// The hang watch of one rank: checks the ledger every second on its own threads, and over its own TCP channel
// tells rank 0 when a call waits too long; rank 0 queries all ranks and prints one report. If rank 0 does not
// answer, a rank reports its own waits. It never ends anything: timeouts and dead peers are HCCL's to report.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/comm/ledger.h"
#include "core/comm/watch_options.h"
#include "core/comm/watch_server.h"
#include "core/comm/watch_socket.h"

namespace trireme {

class WatchChannel {
 public:
  // Nothing runs before Listen or Connect. `ledger` outlives the channel.
  WatchChannel(int rank, int world, const Ledger& ledger, WatchOptions options);
  // Stops the threads and says goodbye, in any order of ranks.
  ~WatchChannel();
  WatchChannel(const WatchChannel&) = delete;
  WatchChannel& operator=(const WatchChannel&) = delete;

  // Rank 0, once: starts, and returns what all others pass to Connect. It contains a secret: do not log it.
  std::string Listen();
  // Every other rank, once: starts. Connecting continues in the background; a failure is logged as a warning.
  void Connect(const std::string& address);

 private:
  void StartPolling();
  void PollLoop();
  void ServeLoop();
  void ClientLoop(const std::string& address);
  bool Join(const std::string& address);
  bool TryJoin(const std::string& secret, const std::string& address);
  void AnswerFor(double seconds);  // until the time is up, the channel is stopped, or rank 0 is gone
  void WaitForTraffic(double seconds);
  void LookAtOwnLedger();  // on ranks other than 0
  void Sleep(double seconds);

  const int rank_;
  const int world_;
  const Ledger& ledger_;
  const WatchOptions options_;

  std::atomic<bool> stop_{false};
  int wake_pipe_[2] = {-1, -1};  // readable once the channel stops
  std::mutex mutex_;             // only for the condition
  std::condition_variable stopped_;

  std::unique_ptr<WatchServer> server_;          // on rank 0
  WatchSocket socket_;                           // on others
  std::chrono::steady_clock::time_point heard_;  // when rank 0 last sent anything, or had nothing to answer
  double speak_after_s_ = 0;                     // without an answer; doubles with each own report
  std::thread poller_;
  std::thread talker_;
};

}  // namespace trireme
