// Rank 0's side of the hang watch: tracks connections, gathers all states when a rank is stuck, prints
// one report and repeats it only after doubling intervals. Clients without the secret are ignored. Driven by
// watch_channel.h's thread; owns no thread.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/ledger.h"
#include "core/comm/watch_options.h"
#include "core/comm/watch_socket.h"
#include "net/door.h"

namespace trireme {

class WatchServer {
 public:
  WatchServer(int world, const Ledger& own_ledger, const WatchOptions& options);

  // What a client passes to Connect: the secret, '@', and where rank 0 listens.
  std::string Address() const { return secret_ + "@" + listener_.address(); }

  // Waits for traffic at most this long, or until `wake` can be read; then does the pending work.
  void Serve(int wake, double wait_s);
  // Checks the local ledger, since rank 0 may be the one that is stuck.
  void LookAtOwnLedger();

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    WatchSocket socket;
    int rank = -1;  // until it has identified itself
  };

  // Gathering the states of all ranks for one report.
  struct Round {
    std::vector<std::optional<RankState>> states;
    std::vector<bool> awaited;
    Clock::time_point deadline;
  };

  void ReadFrom(Client& client);
  void Handle(Client& client, const WatchFrame& frame);
  void Greet(Client& client, const std::string& hello);
  void AddQuietTime();
  void SomeoneIsStuck();
  void StartRound();
  void FinishRoundIfDue();
  void Report();

  const int world_;
  const Ledger& own_ledger_;
  const WatchOptions& options_;
  const std::string secret_;
  WatchListener listener_;
  net::Door door_;
  std::list<Client> clients_;
  std::vector<RankState::Answer> standing_;  // of each rank that does not answer
  std::optional<Round> round_;

  std::string last_cause_;
  double pause_s_ = 0;  // until the same cause is reported again
  Clock::time_point next_round_;
  Clock::time_point last_look_;
  Clock::duration quiet_{};  // since a rank was last found stuck
};

}  // namespace trireme
