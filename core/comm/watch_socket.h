// TCP for the hang watch: small frames between rank 0 and each other rank. Knows nothing of what they mean.
// Not a path for data, and never MPI: it must work while everything else hangs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct WatchFrame {
  char kind = 0;
  std::string payload;
};

// A connected socket, closed with the object. Sends wait at most two seconds; receives never wait.
class WatchSocket {
 public:
  explicit WatchSocket(int descriptor = -1);
  ~WatchSocket();
  WatchSocket(WatchSocket&& other) noexcept;
  WatchSocket& operator=(WatchSocket&& other) noexcept;

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void Close();

  // False, and closed, where the peer is gone.
  bool Send(char kind, std::string_view payload = {});
  // Takes in what has come; false, and closed, where the peer is gone. Frames that came before are still
  // given out.
  bool Receive();
  std::optional<WatchFrame> Next();

 private:
  int descriptor_;
  std::string received_;
};

// A listening socket on all interfaces of this host.
class WatchListener {
 public:
  WatchListener();
  ~WatchListener();
  WatchListener(const WatchListener&) = delete;
  WatchListener& operator=(const WatchListener&) = delete;

  int descriptor() const { return descriptor_; }
  // "10.0.0.5:4711,127.0.0.1:4711": where others may reach it, best first. HCCL_IF_IP, where set, comes
  // first.
  std::string Addresses() const;
  std::optional<WatchSocket> Accept();

 private:
  int descriptor_;
  uint16_t port_ = 0;
};

// One of Addresses(), tried for at most two seconds.
std::optional<WatchSocket> ConnectTo(const std::string& address);

std::vector<std::string> SplitText(const std::string& text, char separator);

}  // namespace trireme
