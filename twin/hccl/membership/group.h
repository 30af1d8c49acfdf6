// One communicator as its parts see it: who the members are, how each is reached, whether one has failed. The
// membership files (join, mesh, monitor) fill it in; the data path (collectives, point to point) only reads
// it. Contains no collective and no wire format.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hccl/hccl.h"

namespace twin {

class Membership;

struct Peer {
  uint32_t rank = 0;
  std::string host;  // as the member reported it: host name, boot id and network namespace
  int64_t process_id = 0;
  int device = 0;
  bool same_host = false;      // the board is shared with it
  bool same_process = false;   // any pointer of ours is valid there
  std::byte* arena = nullptr;  // its device memory mapped here (same_host, other process), else nullptr
  size_t arena_bytes = 0;
  int data_socket = -1;  // non-blocking TCP, only towards another host
};

struct GroupOptions {
  uint32_t buffer_mb = 200;
  bool deterministic = false;
  double connect_timeout_s = 120;
  double exec_timeout_s = 1836;  // 0: never
};

class Group {
 public:
  Group();
  ~Group();

  uint32_t rank = 0;
  uint32_t size = 1;
  std::string name;
  int device = 0;
  aclrtContext context = nullptr;
  bool is_global = true;  // false for a sub-communicator
  GroupOptions options;
  std::vector<Peer> peers;     // by rank; own entry included
  bool one_host = true;        // all members share the board
  std::byte* board = nullptr;  // BoardBytes(size) of shared memory, zero-initialised, one per host
  uint32_t host_members = 1;   // number of members on this host

  // Operations issued so far, counted by the data path; identifies an operation in error messages.
  std::atomic<uint64_t> issued{0};
  // Operations queued or running: HcclCommDestroy from another thread returns HCCL_E_AGAIN until it is 0.
  std::atomic<uint32_t> in_flight{0};
  // What the data path keeps between operations (links, sequence numbers): created by it at the first
  // operation.
  std::shared_ptr<class DataPath> data_path;

  // The first failure wins; later ones are dropped. Thread-safe.
  void Fail(HcclResult code, const std::string& why);
  HcclResult failure() const { return failure_.load(std::memory_order_acquire); }
  std::string failure_text() const;

  // Members that have destroyed their side. Not a failure by itself: a member may leave as soon as its own
  // part of the last operation is done. Whoever waits for a member that has left checks its condition once
  // more (all that the member did happened before), and only then gives up. From data sockets it reads until
  // the end of the stream.
  void MarkLeft(uint32_t member);
  bool has_left(uint32_t member) const { return left_[member].load(std::memory_order_acquire); }
  uint32_t left_count() const { return left_count_.load(std::memory_order_acquire); }

  // Private state of membership: control connections, mapped memory, the memory charge.
  std::unique_ptr<Membership> membership;

  // Sets size, peers and the departure record; before any other thread sees the group.
  void SetSize(uint32_t members);

 private:
  std::atomic<HcclResult> failure_{HCCL_SUCCESS};
  mutable std::mutex mutex_;
  std::string failure_text_;
  std::vector<std::atomic<bool>> left_;
  std::atomic<uint32_t> left_count_{0};
};

// A member in error messages: "rank 3 (host alpha, process 4711, device 3)".
std::string Describe(const Peer& peer);

// The group behind a handle, nullptr if it is not a live communicator.
Group* FindGroup(HcclComm comm);

// Size of the board for a host's members; the data path owns its layout (board.h).
size_t BoardBytes(uint32_t size);

}  // namespace twin
