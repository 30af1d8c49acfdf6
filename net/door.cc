#include "net/door.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace net {
namespace {

constexpr int kAcceptsAtOnce = 512;  // so that a flood does not starve the caller's other work

[[noreturn]] void Fail(const char* what) { throw std::runtime_error(std::string(what) + ": " + std::strerror(errno)); }

bool IsUnix(int socket) {
  int domain = 0;
  socklen_t bytes = sizeof(domain);
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

}  // namespace

bool PeerIsSameUser(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

Door::Door(int listener, Key key, DoorLimits limits)
    : listener_(listener),
      key_(std::move(key)),
      limits_(limits),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!epoll_.valid() || !timer_.valid()) Fail("a listener cannot be watched");
  const int flags = fcntl(listener_, F_GETFL);
  if (flags < 0 || fcntl(listener_, F_SETFL, flags | O_NONBLOCK) < 0) Fail("a listener cannot be read");
  Watch(listener_);
  Watch(timer_.get());
}

void Door::Watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) Fail("a socket cannot be watched");
}

std::vector<Fd> Door::Admit() {
  uint64_t ticks = 0;
  (void)!read(timer_.get(), &ticks, sizeof(ticks));
  if (!listens_) {
    Watch(listener_);
    listens_ = true;
  }
  std::vector<Fd> admitted;
  Advance(&admitted);
  AcceptWaiting(&admitted);
  Advance(&admitted);
  SetTimer();
  return admitted;
}

void Door::AcceptWaiting(std::vector<Fd>* admitted) {
  for (int count = 0; count < kAcceptsAtOnce; ++count) {
    if (AcceptOne()) {
      if (strangers_.size() > limits_.strangers) DropOldest(admitted);
    } else if ((errno == EMFILE || errno == ENFILE) && !strangers_.empty()) {
      DropOldest(admitted);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      // No descriptor of ours can be freed: new connections wait until the timer re-enables the listener.
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_, nullptr);
      listens_ = false;
      return;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
  }
}

bool Door::AcceptOne() {
  Fd socket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) return false;
  if (IsUnix(socket.get()) && !PeerIsSameUser(socket.get())) return true;
  const int number = socket.get();
  const auto patience = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.patience_s));
  Watch(number);
  strangers_.push_back({std::move(socket), Handshake(number, Handshake::Side::kServer, key_), Clock::now() + patience});
  return true;
}

void Door::Advance(std::vector<Fd>* admitted) {
  const Clock::time_point now = Clock::now();
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const Handshake::State state = stranger->handshake.Advance();
    if (state == Handshake::State::kWaiting && now < stranger->deadline) {
      ++stranger;
      continue;
    }
    // An admitted socket is no longer watched here; a closed one leaves the set automatically.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stranger->socket.get(), nullptr);
    if (state == Handshake::State::kProven) admitted->push_back(std::move(stranger->socket));
    stranger = strangers_.erase(stranger);
  }
}

// What the oldest has sent meanwhile still counts: under a flood the job's own ranks must not be dropped.
void Door::DropOldest(std::vector<Fd>* admitted) {
  Stranger& oldest = strangers_.front();
  const bool proven = oldest.handshake.Advance() == Handshake::State::kProven;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, oldest.socket.get(), nullptr);
  if (proven) admitted->push_back(std::move(oldest.socket));
  strangers_.pop_front();
}

void Door::SetTimer() {
  const bool needed = !strangers_.empty() || !listens_;
  if (needed == timer_runs_) return;
  timer_runs_ = needed;
  itimerspec every{};
  if (needed) every.it_value.tv_nsec = every.it_interval.tv_nsec = 200'000'000;
  timerfd_settime(timer_.get(), 0, &every, nullptr);
}

}  // namespace net
