// A plain client of http_server_test: a socket to send anything through, and to read from until something is there.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

namespace trireme {

class Client {
 public:
  // receive_bytes: of its socket's buffer; 0: the system's.
  explicit Client(uint16_t port, int receive_bytes = 0) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  ~Client() {
    if (socket_ >= 0) close(socket_);
  }

  bool connected() const { return connected_; }
  int handle() const { return socket_; }
  // Whether the peer took it.
  bool Send(const std::string& data) const {
    size_t sent = 0;
    while (sent < data.size()) {
      const ssize_t count = send(socket_, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }
  // Reads until `end` is in it, or the peer closes.
  std::string ReadUntil(const std::string& end) {
    char part[4096];
    while (end.empty() || read_.find(end) == std::string::npos) {
      const ssize_t count = recv(socket_, part, sizeof(part), 0);
      if (count <= 0) break;
      read_.append(part, static_cast<size_t>(count));
    }
    return std::exchange(read_, "");
  }
  std::string ReadAll() { return ReadUntil(""); }

 private:
  int socket_;
  bool connected_ = false;
  std::string read_;
};

}  // namespace trireme
