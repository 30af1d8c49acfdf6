// ByteChannel: bytes to and from a server, plainly over TCP (Socket, here) or through TLS (tls_channel.h). Waits no
// longer than it was told. Knows no HTTP. No torch.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "web/http/http_address.h"

struct addrinfo;

namespace trireme {

class ByteChannel {
 public:
  virtual ~ByteChannel() = default;
  virtual void Send(std::string_view bytes) = 0;
  // Up to `size` bytes; 0: the other side has closed.
  virtual size_t Receive(char* buffer, size_t size) = 0;
};

struct WaitRules {
  std::string who = {};    // in errors: "the reward endpoint http://…"
  std::string limit = {};  // in errors: what sets the time, "rl.reward_seconds"
  double seconds = 60;
  bool per_wait = false;  // the time is for each wait for the other side; otherwise for all of them together
  std::function<bool()> gives_up = {};  // polled while it waits: whether nobody wants the response any more
};

class Socket : public ByteChannel {
 public:
  // Connects; a runtime error if that is not possible.
  Socket(const HttpTarget& target, WaitRules rules);
  ~Socket() override;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void Send(std::string_view bytes) override;
  size_t Receive(char* buffer, size_t size) override;
  const std::string& who() const { return rules_.who; }

 private:
  using Clock = std::chrono::steady_clock;

  explicit Socket(WaitRules rules);  // not connected
  std::string TryConnect(const addrinfo& address);
  void Wait(short events);
  Clock::time_point NextEnd() const;

  const WaitRules rules_;
  Clock::time_point end_;
  int socket_ = -1;
};

}  // namespace trireme
