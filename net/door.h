// Door: admits peers that prove the secret, on a listening socket that strangers may reach as well. It talks
// to all of them concurrently and never blocks on one; it holds a limited number of strangers, each for a
// limited time and only a handshake's bytes, and beyond that number drops the oldest. On Unix sockets other
// users are rejected at once.
#pragma once

#include <chrono>
#include <list>
#include <vector>

#include "net/fd.h"
#include "net/handshake.h"

namespace net {

struct DoorLimits {
  size_t strangers = 64;   // well below any limit on open files, even with several doors per process
  double patience_s = 10;  // for the whole handshake
};

class Door {
 public:
  // The listener belongs to the caller and stays open as long as the door exists; the door makes it
  // non-blocking.
  Door(int listener, Key key, DoorLimits limits = {});
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Readable when Admit has work to do; for poll together with other descriptors.
  int descriptor() const { return epoll_.get(); }
  // Those that have proven the secret since the last call.
  std::vector<Fd> Admit();

  size_t strangers() const { return strangers_.size(); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Stranger {
    Fd socket;
    Handshake handshake;
    Clock::time_point deadline;
  };

  void AcceptWaiting(std::vector<Fd>* admitted);
  bool AcceptOne();
  void Advance(std::vector<Fd>* admitted);
  void DropOldest(std::vector<Fd>* admitted);
  void Watch(int descriptor);
  void SetTimer();

  const int listener_;
  const Key key_;
  const DoorLimits limits_;
  Fd epoll_;
  Fd timer_;
  bool listens_ = true;  // false while the process is out of descriptors
  bool timer_runs_ = false;
  std::list<Stranger> strangers_;  // oldest first
};

// Whether the process at the other end of a Unix socket runs as this one's user.
bool PeerIsSameUser(int socket);

}  // namespace net
