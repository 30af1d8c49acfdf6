#include "core/comm/watch_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr size_t kHeaderBytes = 5;          // length of the payload, little-endian, and the kind
constexpr uint32_t kMostBytes = 64u << 20;  // no state is that large: the peer is something else

void LimitSends(int descriptor) {
  const timeval limit = {.tv_sec = 2, .tv_usec = 0};
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

uint32_t LengthOf(const std::string& received) {
  uint32_t length = 0;
  for (int i = 3; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(received[i]);
  return length;
}

}  // namespace

WatchSocket::WatchSocket(int descriptor) : descriptor_(descriptor) {
  if (open()) LimitSends(descriptor_);
}

WatchSocket::~WatchSocket() { Close(); }

WatchSocket::WatchSocket(WatchSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}

WatchSocket& WatchSocket::operator=(WatchSocket&& other) noexcept {
  Close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  received_ = std::move(other.received_);
  return *this;
}

void WatchSocket::Close() {
  if (open()) close(std::exchange(descriptor_, -1));
}

bool WatchSocket::Send(char kind, std::string_view payload) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(payload.size() >> (8 * i) & 0xff));
  bytes.push_back(kind);
  bytes.append(payload);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t now = open() ? send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL) : -1;
    if (now < 0 && errno == EINTR && open()) continue;
    if (now <= 0) {
      Close();
      return false;
    }
    sent += static_cast<size_t>(now);
  }
  return true;
}

bool WatchSocket::Receive() {
  char buffer[4096];
  while (open()) {
    const ssize_t now = recv(descriptor_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (now > 0) {
      received_.append(buffer, static_cast<size_t>(now));
    } else if (now < 0 && errno == EINTR) {
      continue;
    } else if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return true;
    } else {
      Close();
    }
  }
  return false;
}

std::optional<WatchFrame> WatchSocket::Next() {
  if (received_.size() < kHeaderBytes) return std::nullopt;
  const uint32_t length = LengthOf(received_);
  if (length > kMostBytes) {
    Close();
    received_.clear();
    return std::nullopt;
  }
  if (received_.size() < kHeaderBytes + length) return std::nullopt;
  WatchFrame frame = {received_[4], received_.substr(kHeaderBytes, length)};
  received_.erase(0, kHeaderBytes + length);
  return frame;
}

WatchListener::WatchListener(const std::string& host)
    : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  const bool listens = descriptor_ >= 0 && inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1 &&
                       bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       listen(descriptor_, SOMAXCONN) == 0 &&
                       getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!listens) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    throw RuntimeError("the hang watch cannot listen on ", host, ": ", std::strerror(error));
  }
  address_ = Concat(host, ":", ntohs(address.sin_port));
}

WatchListener::~WatchListener() { close(descriptor_); }

std::optional<WatchSocket> ConnectTo(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  uint16_t port = 0;
  if (colon == std::string::npos) return std::nullopt;
  std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  target.sin_port = htons(port);
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &target.sin_addr) != 1) return std::nullopt;
  WatchSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // its send timeout also applies to connect
  if (!socket.open()) return std::nullopt;
  if (connect(socket.descriptor(), reinterpret_cast<sockaddr*>(&target), sizeof target) != 0) return std::nullopt;
  return socket;
}

}  // namespace trireme
