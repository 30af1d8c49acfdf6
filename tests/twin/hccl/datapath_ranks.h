// Ranks as threads over a hand-made group: the data path alone, without communicators, streams or devices.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "twin/hccl/data_path.h"
#include "twin/hccl/group.h"

namespace twin_test {

// How the members' buffers look to each other.
enum class Memory {
  kShared,   // every pointer is valid everywhere: the direct way
  kPrivate,  // nobody reaches another's buffers: rings
  kRemote,   // every member on a host of its own: TCP
  kMixed,    // two members a host, private buffers: rings and TCP together
};

std::string Name(Memory memory);

class Ranks {
 public:
  Ranks(uint32_t size, Memory memory, double timeout_s = 60);
  ~Ranks();

  // Runs `body(rank)` on a thread for each rank and waits for all.
  void Run(const std::function<void(uint32_t)>& body);
  // Numbers the operation and runs it on the calling thread as its task would.
  aclError Do(uint32_t rank, twin::Operation operation);
  twin::Group& group(uint32_t rank) { return *groups_[rank]; }
  uint32_t size() const { return static_cast<uint32_t>(groups_.size()); }

 private:
  std::vector<std::unique_ptr<twin::Group>> groups_;
  std::vector<std::byte*> boards_;  // one for each host
  std::vector<int> sockets_;
};

}  // namespace twin_test
