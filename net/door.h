// Door: lets in whoever proves the secret, on a listening socket that strangers may find as well. It talks with
// all of them side by side and never waits for one; it holds only so many strangers, each only so long and with
// only a handshake's bytes, and when more come the oldest goes. On Unix sockets other users stay outside at once.
#pragma once

#include <chrono>
#include <list>
#include <vector>

#include "net/fd.h"
#include "net/handshake.h"

namespace net {

struct DoorLimits {
  size_t strangers = 64;   // well below any limit on open files, also where a process has several doors
  double patience_s = 10;  // for the whole handshake
};

class Door {
 public:
  // The listener stays open and the caller's for as long as the door stands; the door makes it non-blocking.
  Door(int listener, Key key, DoorLimits limits = {});
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Readable when there is something to do for Admit: for poll beside other descriptors.
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
  bool listens_ = true;  // false for a moment where the process has no descriptor left
  bool timer_runs_ = false;
  std::list<Stranger> strangers_;  // oldest first
};

// Whether the process at the other end of a Unix socket runs as this one's user.
bool PeerIsSameUser(int socket);

}  // namespace net
