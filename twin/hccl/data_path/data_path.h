// What the data path keeps per group between operations, and the one function that runs an operation. Runs on
// the stream's worker thread; the calls that issue operations are elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "twin/hccl/data_path/board.h"
#include "twin/hccl/data_path/links.h"
#include "twin/hccl/data_path/mirror.h"
#include "twin/hccl/data_path/operation.h"
#include "twin/hccl/data_path/tcp_link.h"
#include "twin/hccl/membership/group.h"

namespace twin {

class DataPath {
 public:
  explicit DataPath(Group& group);
  ~DataPath();

  Group& group() { return group_; }
  const Group& group() const { return group_; }
  // The memory in which `rank`'s posts appear: shared on this host, otherwise filled by the TCP link.
  const Board& board_of(uint32_t rank) const { return group_.peers[rank].same_host ? shared_ : mirror_; }
  // The link to another member, created at first use.
  Link& link(uint32_t rank);

  // The address of a member's buffer in this process, nullptr if we cannot access it.
  std::byte* Reach(uint32_t rank, const BufferRef& buffer) const;
  // Our own buffer as others may access it.
  BufferRef Publish(const void* buffer, size_t bytes) const;
  bool maps_all_arenas() const { return maps_all_arenas_; }
  bool one_process() const { return one_process_; }

  // Lets TCP links make progress; false if there are none or nothing moved.
  bool ProgressRemote();
  // The members on other hosts that still have data to receive from us.
  std::vector<uint32_t> Unflushed() const;
  // Sends our post or offer to members on other hosts; those on this host see it on the board.
  void SendPost(uint64_t sequence);
  void SendOffer(uint32_t peer, bool is_send, uint64_t sequence);

  // Numbers the operation and its messages; the calls of one device are serial, so no lock is needed.
  void Number(Operation& operation);
  // Reverts the numbering: the operation, the last one numbered, will not run.
  void Withdraw(const Operation& operation);
  // Throws if another operation of this group is running.
  void Begin(const Operation& operation);
  void End(const Operation& operation);

 private:
  void AddRemoteLink(const Peer& peer);
  void OnControl(uint32_t from, FrameKind kind, uint64_t sequence, std::span<const std::byte> content);

  Group& group_;
  Board shared_;
  Board mirror_;
  std::unique_ptr<MirrorMemory> mirror_memory_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::pair<uint32_t, TcpLink*>> remote_links_;
  bool maps_all_arenas_ = true;
  bool one_process_ = true;
  uint64_t collectives_ = 0;
  std::vector<uint64_t> sends_, receives_;  // [ranks]
  std::atomic<const Operation*> running_{nullptr};
};

// Runs the operation to completion. Throws HcclFailure.
void RunOperation(DataPath& path, const Operation& operation);

}  // namespace twin
