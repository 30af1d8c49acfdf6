// Watches the control connections of all communicators of this process, in one thread: dispatches messages,
// and fails the group of a connection that ends without a goodbye. Reads only; control.h sends.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "twin/hccl/membership/group.h"
#include "twin/hccl/wire/sockets.h"

namespace twin {

class Monitor {
 public:
  static Monitor& Get();

  void Watch(Group* group, uint32_t peer, int socket);
  // Once it returns, the monitor no longer touches the group.
  void Forget(const Group* group);

 private:
  struct Link {
    Group* group = nullptr;
    uint32_t peer = 0;
    int socket = -1;
    FrameBuffer input;
  };

  Monitor();
  void StartIfNeeded();
  void Run(int epoll);
  void Serve(uint64_t key);
  void ForgetInForkedChild();

  std::mutex mutex_;
  Fd epoll_;  // valid while the thread runs
  std::map<uint64_t, Link> links_;
  uint64_t next_key_ = 0;
};

}  // namespace twin
