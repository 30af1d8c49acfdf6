// FairTurns: whose work comes next. Owners share the ranks by tokens, and the models of an owner share what it gets, so
// that neither long requests nor many models buy more than a share. Who was idle has nothing saved up. Knows no clock,
// no queue.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme::tinker {

// A model whose next request can run.
struct Turn {
  std::string owner, model;
  int64_t tokens = 1;  // of that request
};

class FairTurns {
 public:
  // Which one of these, at least one; it is charged its tokens.
  size_t Choose(const std::vector<Turn>& ready);

 private:
  // Fair queueing by start times: a flow's next request starts when its last one would have ended at a fair share, or
  // now.
  class Shares {
   public:
    double StartOf(const std::string& flow) const;
    void Charge(const std::string& flow, int64_t tokens);

   private:
    double now_ = 0;
    std::map<std::string, double> ends_;  // of flows that have had more than their share
  };
  Shares owners_;
  std::map<std::string, Shares> models_;  // by owner
};

}  // namespace trireme::tinker
