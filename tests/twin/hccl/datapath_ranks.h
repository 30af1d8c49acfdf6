// Ranks as threads over a hand-built group: the data path alone, without communicators, streams or devices.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "twin/hccl/data_path/data_path.h"
#include "twin/hccl/membership/group.h"

namespace twin_test {

// How the members' buffers look to each other.
enum class Memory {
  kShared,   // every pointer is valid everywhere: the direct path
  kPrivate,  // no rank can access another's buffers: rings
  kRemote,   // every member on its own host: TCP
  kMixed,    // two members per host, private buffers: rings and TCP together
};

std::string Name(Memory memory);

// Numbers of ranks to try. A sanitizer sees what few threads do to each other, and takes minutes for many.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr uint32_t kRankCounts[] = {2, 3, 4};
#else
inline constexpr uint32_t kRankCounts[] = {1, 2, 3, 4, 5, 8};
#endif

class Ranks {
 public:
  Ranks(uint32_t size, Memory memory, double timeout_s = 60);
  ~Ranks();

  // Runs `body(rank)` on one thread per rank and waits for all.
  void Run(const std::function<void(uint32_t)>& body);
  // Numbers the operation and runs it on the calling thread as its task would.
  aclError Do(uint32_t rank, twin::Operation operation);
  twin::Group& group(uint32_t rank) { return *groups_[rank]; }
  uint32_t size() const { return static_cast<uint32_t>(groups_.size()); }

 private:
  std::vector<std::unique_ptr<twin::Group>> groups_;
  std::vector<std::byte*> boards_;  // one per host
  std::vector<int> sockets_;
};

}  // namespace twin_test
