// Any number of concurrent byte transfers with other members over their links, none waiting for another; and,
// before any other receive, at most one reduction over a stream from every member.
#pragma once

#include <cstddef>
#include <vector>

#include "twin/hccl/data_path/data_path.h"
#include "twin/hccl/data_path/waiter.h"

namespace twin {

class Exchange {
 public:
  Exchange(DataPath& path, const Operation& operation);

  // Transfers with one peer in one direction happen in the order they were added.
  // With `follow_reduction`, bytes are sent as the reduction into them completes.
  void Send(uint32_t peer, const void* data, size_t bytes, bool follow_reduction = false);
  void Receive(uint32_t peer, void* data, size_t bytes);
  // Reduces `own` and `bytes` from every other member into `out`, in rank order. Precedes all receives.
  void ReduceFromAll(const void* own, void* out, size_t bytes);

  // Moves what can be moved now; false if nothing could.
  bool Step();
  bool finished() const;
  // Runs until everything is done. Throws HcclFailure.
  void Run();
  // The peers with unfinished transfers.
  std::vector<uint32_t> Unfinished() const;

 private:
  struct Transfer {
    std::byte* data;
    size_t bytes;
    size_t done;
    bool follow_reduction;
  };
  struct Queue {
    std::vector<Transfer> transfers;
    size_t next = 0;
    bool finished() const { return next == transfers.size(); }
  };

  bool StepSend(uint32_t peer);
  bool StepReceive(uint32_t peer);
  bool StepReduction();

  DataPath& path_;
  const Operation& operation_;
  std::vector<Queue> sends_, receives_;  // [ranks]
  const std::byte* own_ = nullptr;
  std::byte* reduced_ = nullptr;
  size_t reduction_bytes_ = 0;
  size_t reduction_done_ = 0;
};

}  // namespace twin
