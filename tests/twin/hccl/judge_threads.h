// Ranks as threads of one process, one device each: the other of the two ways in which HCCL may be used. Root
// info travels through memory; no MPI.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/twin/hccl/judge_api.h"

namespace judge {

struct Rank {
  uint32_t rank = 0;
  uint32_t size = 1;
  HcclComm comm = nullptr;  // set to nullptr by a body that has destroyed it
  aclrtStream stream = nullptr;
  aclrtContext context = nullptr;
};

// Runs `body` once on each of `size` threads with a communicator over all of them, and waits for all.
void RunRanks(uint32_t size, const std::function<void(Rank&)>& body);

// What became of one call and of the stream behind it.
struct Outcome {
  HcclResult call = HCCL_SUCCESS;
  aclError stream = ACL_SUCCESS;
  std::string text;

  bool failed() const { return call != HCCL_SUCCESS || stream != ACL_SUCCESS; }
};
Outcome Finish(HcclResult call, aclrtStream stream);

// Every rank failed, and at least one text holds each of `words` (letter case aside).
void ExpectAllFailedNaming(const std::vector<Outcome>& outcomes, const std::vector<std::string>& words);

}  // namespace judge
