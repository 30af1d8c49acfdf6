// Ranks as processes, without a launcher: children are forked before the test process has any thread of the
// library, so that the parent survives whatever happens to them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hccl/hccl.h"

namespace membership_test {

// What each child runs; returns an empty string on success, otherwise what went wrong.
using RankBody = std::function<std::string(uint32_t rank)>;

class Processes {
 public:
  // Forks `count` children. In each, the twin's device `rank` is set before `body` runs.
  Processes(uint32_t count, const RankBody& body);
  // Kills the children that are still running.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Blocks until the child has ended: returns what its body returned, or how it was killed.
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

// Memory that the children share, created before the fork: carries root infos and barriers.
class Stage {
 public:
  Stage();
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Rank 0 creates root info number `slot`; all others wait for it. Aborts the process on failure.
  HcclRootInfo RootInfo(uint32_t slot, uint32_t rank);
  // Blocks until `count` ranks, processes or threads, are here. The count must be the same for each stage.
  void Meet(uint32_t count);

 private:
  struct Shared;
  Shared* shared_;
};

// Empty if the code is the expected one, otherwise the code and the library's recent message.
std::string Check(HcclResult code, HcclResult wanted, const std::string& what);
std::string RecentError();

// Empty if `text` contains all the words, otherwise the text and the missing word.
std::string CheckWords(const std::string& text, const std::vector<std::string>& words);

// Polls a communicator's asynchronous error for up to 5 seconds, as a survivor does.
HcclResult AwaitAsyncError(HcclComm comm);

// Sets the tests' timeouts, in seconds; children inherit them.
void SetConnectTimeout(const char* seconds);

}  // namespace membership_test
