// TCP for the hang watch: small frames between rank 0 and every other rank. Does not interpret them.
// Not a path for data, and never MPI: it must work while everything else hangs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct WatchFrame {
  char kind = 0;
  std::string payload;
};

// A connected socket, closed with the object. Sends block at most two seconds; receives never block.
class WatchSocket {
 public:
  explicit WatchSocket(int descriptor = -1);
  ~WatchSocket();
  WatchSocket(WatchSocket&& other) noexcept;
  WatchSocket& operator=(WatchSocket&& other) noexcept;

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void Close();

  // False, and closed, if the peer is gone.
  bool Send(char kind, std::string_view payload = {});
  // Reads what has arrived; false, and closed, if the peer is gone. Frames received before are still
  // delivered.
  bool Receive();
  std::optional<WatchFrame> Next();

 private:
  int descriptor_;
  std::string received_;
};

// A listening socket on one interface of this host, at any free port.
class WatchListener {
 public:
  explicit WatchListener(const std::string& host);
  ~WatchListener();
  WatchListener(const WatchListener&) = delete;
  WatchListener& operator=(const WatchListener&) = delete;

  int descriptor() const { return descriptor_; }
  // "10.0.0.5:4711"
  const std::string& address() const { return address_; }

 private:
  int descriptor_;
  std::string address_;
};

// A listener's address(), with a timeout of two seconds.
std::optional<WatchSocket> ConnectTo(const std::string& address);

}  // namespace trireme
