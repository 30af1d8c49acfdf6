// Ranks as processes, without a launcher: children are forked before the test process has any thread of the
// library, so that the parent survives whatever becomes of them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hccl/hccl.h"

namespace membership_test {

// What each child runs; an empty text means that all was well, else it says what was not.
using RankBody = std::function<std::string(uint32_t rank)>;

class Processes {
 public:
  // Forks `count` children. In each, the twin's device `rank` is set before `body` runs.
  Processes(uint32_t count, const RankBody& body);
  // Kills what is still running.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Blocks until the child has ended: what its body returned, or how it was killed.
  std::string Wait(uint32_t rank);
  void Kill(uint32_t rank);
  pid_t Id(uint32_t rank) const { return children_[rank].id; }

 private:
  struct Child {
    pid_t id = 0;  // 0: waited for
    int report = -1;
  };
  std::vector<Child> children_;
};

// Memory that the children share, made before the fork: the way of root infos, and meeting points.
class Stage {
 public:
  Stage();
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Rank 0 makes the root info number `slot`, all others wait for it. Aborts the process on failure.
  HcclRootInfo RootInfo(uint32_t slot, uint32_t rank);
  // Blocks until `count` ranks are here, processes or threads. The count must stay the same on one stage.
  void Meet(uint32_t count);

 private:
  struct Shared;
  Shared* shared_;
};

// Empty where the code is the wanted one, else what came and the library's recent message.
std::string Check(HcclResult code, HcclResult wanted, const std::string& what);
std::string RecentError();

// Empty where `text` holds all the words, else the text and what it lacks.
std::string CheckWords(const std::string& text, const std::vector<std::string>& words);

// Polls the asynchronous error of a communicator for up to 5 seconds: what a survivor does.
HcclResult AwaitAsyncError(HcclComm comm);

// Sets the time-outs of tests, in seconds; children inherit them.
void SetConnectTimeout(const char* seconds);

}  // namespace membership_test
