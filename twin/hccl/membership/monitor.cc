// The monitor thread.
#include "twin/hccl/membership/monitor.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "twin/hccl/membership/background.h"
#include "twin/hccl/membership/control.h"

namespace twin {

Monitor& Monitor::Get() {
  static Monitor& monitor = *new Monitor;  // its thread runs until the process ends
  return monitor;
}

Monitor::Monitor() {
  pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                 [] {
                   Get().ForgetInForkedChild();
                   Get().mutex_.unlock();
                 });
}

void Monitor::StartIfNeeded() {
  if (epoll_.valid()) return;
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) {
    throw HcclFailure(HCCL_E_SYSCALL, std::string("cannot create an epoll descriptor: ") + std::strerror(errno));
  }
  RunInBackground([this, epoll = epoll_.get()] { Run(epoll); });
}

// A forked child that kept the sockets open would hide its parent's death from the peers. The descriptor
// numbers stay in use, since the groups that the child inherited still hold them.
void Monitor::ForgetInForkedChild() {
  const Fd nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const auto& [key, link] : links_) dup3(nowhere.get(), link.socket, O_CLOEXEC);
  links_.clear();
  epoll_ = Fd();  // the child has no monitor thread; its first communicator starts one
}

void Monitor::Watch(Group* group, uint32_t peer, int socket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  StartIfNeeded();
  const uint64_t key = next_key_++;
  Link& link = links_[key];
  link.group = group;
  link.peer = peer;
  link.socket = socket;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = key;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) != 0) {
    links_.erase(key);
    throw HcclFailure(HCCL_E_SYSCALL, std::string("cannot watch a connection: ") + std::strerror(errno));
  }
}

void Monitor::Forget(const Group* group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(links_, [&](const auto& entry) {
    if (entry.second.group != group) return false;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, entry.second.socket, nullptr);
    return true;
  });
}

void Monitor::Run(int epoll) {
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = epoll_wait(epoll, events.data(), events.size(), -1);
    for (int index = 0; index < count; ++index) {
      const std::lock_guard<std::mutex> lock(mutex_);
      Serve(events[index].data.u64);
    }
  }
}

void Monitor::Serve(uint64_t key) {
  const auto found = links_.find(key);
  if (found == links_.end()) return;  // removed since the event was fetched
  Link& link = found->second;
  bool open = true;
  try {
    open = link.input.Fill(link.socket);
    while (std::optional<Frame> frame = link.input.Next()) HandleControl(*link.group, link.peer, *std::move(frame));
  } catch (const HcclFailure& failure) {
    link.group->Fail(HCCL_E_REMOTE, Describe(link.group->peers[link.peer]) + ": " + failure.what());
    open = false;
  }
  if (open) return;
  if (!link.group->has_left(link.peer)) {
    link.group->Fail(HCCL_E_REMOTE,
                     Describe(link.group->peers[link.peer]) +
                         " closed its connection without leaving the communicator: its process has died");
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket, nullptr);
  links_.erase(found);
}

}  // namespace twin
