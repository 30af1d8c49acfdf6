// Ranks as threads of one process, one device each: the second supported way to use HCCL. The root info is
// passed through memory; no MPI.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/twin/hccl/conformance_api.h"

namespace conformance {

struct Rank {
  uint32_t rank = 0;
  uint32_t size = 1;
  HcclComm comm = nullptr;  // set to nullptr by a body that has destroyed it
  aclrtStream stream = nullptr;
  aclrtContext context = nullptr;
};

// Runs `body` once on each of `size` threads with a communicator over all of them, and waits for all.
void RunRanks(uint32_t size, const std::function<void(Rank&)>& body);

// The outcome of one call and of its stream.
struct Outcome {
  HcclResult call = HCCL_SUCCESS;
  aclError stream = ACL_SUCCESS;
  std::string text;

  bool failed() const { return call != HCCL_SUCCESS || stream != ACL_SUCCESS; }
};
Outcome Finish(HcclResult call, aclrtStream stream);

// Every rank failed, and at least one message contains each of `words` (ignoring case).
void ExpectAllFailedNaming(const std::vector<Outcome>& outcomes, const std::vector<std::string>& words);

}  // namespace conformance
