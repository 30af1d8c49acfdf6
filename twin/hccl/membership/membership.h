// What one member of one communicator holds for membership's own use: its control connections, its mappings,
// the device memory it was charged, and messages that arrived before anyone asked for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "twin/hccl/membership/mapping.h"
#include "twin/hccl/wire/sockets.h"

namespace twin {

// Device memory charged to HCCL, released by the destructor.
class MemoryCharge {
 public:
  // Throws HCCL_E_MEMORY with the figures if it does not fit.
  MemoryCharge(int device, size_t bytes);
  ~MemoryCharge();
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;

 private:
  int device_;
  size_t bytes_;
};

// Control messages waiting for the call that consumes them.
class Inbox {
 public:
  struct Message {
    uint32_t from = 0;
    Frame frame;
  };
  using Wanted = std::function<bool(const Message&)>;

  void Put(Message message);
  // The oldest matching message; empty after `patience`.
  std::optional<Message> Take(const Wanted& wanted, std::chrono::milliseconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Message> messages_;
};

class Membership {
 public:
  std::string id;                           // the same for all members
  std::string secret;                       // known to nobody else
  std::vector<Fd> control;                  // by rank; none to members in this process
  std::vector<Fd> data;                     // by rank; only to members that share no memory with this one
  std::shared_ptr<BoardMemory> own_board;   // if this process created the board,
  std::shared_ptr<Mapping> received_board;  // otherwise
  std::vector<std::shared_ptr<Mapping>> arenas;
  std::unique_ptr<MemoryCharge> charge;
  Inbox inbox;
};

}  // namespace twin
