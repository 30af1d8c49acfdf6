// The hand-built groups: boards, sockets between hosts, and a data path per rank.
#include "tests/twin/hccl/datapath_ranks.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "twin/hccl/api/issue.h"

namespace twin_test {

namespace {

uint32_t HostOf(uint32_t rank, Memory memory) {
  return memory == Memory::kRemote ? rank : memory == Memory::kMixed ? rank / 2 : 0;
}

std::byte* NewBoard(uint32_t size) {
  void* memory =
      mmap(nullptr, twin::BoardBytes(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return static_cast<std::byte*>(memory);
}

std::unique_ptr<twin::Group> NewGroup(uint32_t rank, uint32_t size, Memory memory) {
  auto group = std::make_unique<twin::Group>();
  group->SetSize(size);
  group->rank = rank;
  group->name = "test";
  group->device = static_cast<int>(rank);
  group->host_members = 0;
  for (uint32_t other = 0; other < size; ++other) {
    twin::Peer& peer = group->peers[other];
    peer.rank = other;
    peer.device = static_cast<int>(other);
    peer.same_host = HostOf(other, memory) == HostOf(rank, memory);
    peer.same_process = memory == Memory::kShared || other == rank;
    group->host_members += peer.same_host;
  }
  group->one_host = group->host_members == size;
  return group;
}

}  // namespace

std::string Name(Memory memory) {
  switch (memory) {
    case Memory::kShared:
      return "Shared";
    case Memory::kPrivate:
      return "Private";
    case Memory::kRemote:
      return "Remote";
    case Memory::kMixed:
      return "Mixed";
  }
  return "";
}

Ranks::Ranks(uint32_t size, Memory memory, double timeout_s) {
  for (uint32_t rank = 0; rank < size; ++rank) {
    groups_.push_back(NewGroup(rank, size, memory));
    if (HostOf(rank, memory) == boards_.size()) boards_.push_back(NewBoard(size));
    groups_[rank]->board = boards_.back();
    groups_[rank]->options.exec_timeout_s = timeout_s;
  }
  for (uint32_t a = 0; a < size; ++a) {
    for (uint32_t b = a + 1; b < size; ++b) {
      if (HostOf(a, memory) == HostOf(b, memory)) continue;
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) abort();
      groups_[a]->peers[b].data_socket = ends[0];
      groups_[b]->peers[a].data_socket = ends[1];
      sockets_.insert(sockets_.end(), ends, ends + 2);
    }
  }
  for (auto& group : groups_) group->data_path = std::make_shared<twin::DataPath>(*group);
}

Ranks::~Ranks() {
  const uint32_t size = this->size();
  groups_.clear();
  for (std::byte* board : boards_) munmap(board, twin::BoardBytes(size));
  for (const int socket : sockets_) close(socket);
}

void Ranks::Run(const std::function<void(uint32_t)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size(); ++rank) threads.emplace_back(body, rank);
  for (auto& thread : threads) thread.join();
}

aclError Ranks::Do(uint32_t rank, twin::Operation operation) {
  groups_[rank]->data_path->Number(operation);
  return twin::RunAsTask(*groups_[rank], operation);
}

}  // namespace twin_test
