// LiveFeed: pages that follow logs, by server-sent events: `step` with new rows, `reset` where a log was cut or the
// page is far behind, `runs` where runs came, went or changed their state. Each event's id says how far every log was
// read, so that a page that reconnects (Last-Event-ID), even to a new process, misses nothing and sees nothing twice.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "board/run_folders.h"
#include "web/http/http.h"

namespace trireme {

class LiveFeed {
 public:
  // `at`: "RUN@POSITION,RUN@POSITION", the runs to follow; throws an ApiError for what cannot be followed.
  void Follow(const RunFolders& runs, const std::string& at, std::shared_ptr<HttpReply> reply);
  // Sends what is new to each.
  void Push(const RunFolders& runs);
  void SayRunsChanged();
  void End();
  bool empty() const { return followers_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Follower {
    std::shared_ptr<HttpReply> reply;
    std::map<std::string, LogPosition> positions;  // by run
    Clock::time_point spoken = Clock::now();
  };
  static void Send(Follower& follower, const std::string& name, const std::string& data);
  static void PushRun(Follower& follower, const BoardRun& run, LogPosition& at);

  std::vector<Follower> followers_;
};

}  // namespace trireme
