#include "web/http/byte_channel.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/error.h"

namespace trireme {

Socket::Socket(WaitRules rules) : rules_(std::move(rules)), end_(NextEnd()) {}

// Through the other constructor, so that the destructor closes the descriptor where a wait throws.
Socket::Socket(const HttpTarget& target, WaitRules rules) : Socket(std::move(rules)) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found);
  if (error != 0) throw RuntimeError(rules_.who, " cannot be found: ", gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  std::string why;
  for (const addrinfo* one = addresses.get(); one != nullptr && socket_ < 0; one = one->ai_next) why = TryConnect(*one);
  if (socket_ < 0) throw RuntimeError(rules_.who, " cannot be reached: ", why);
}

Socket::~Socket() {
  if (socket_ >= 0) close(socket_);
}

void Socket::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    Wait(POLLOUT);
    const ssize_t count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) throw RuntimeError(rules_.who, " closed the connection: ", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
}

size_t Socket::Receive(char* buffer, size_t size) {
  for (;;) {
    Wait(POLLIN);
    const ssize_t count = recv(socket_, buffer, size, 0);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EAGAIN) throw RuntimeError(rules_.who, " closed the connection: ", std::strerror(errno));
  }
}

// Why not, or nothing.
std::string Socket::TryConnect(const addrinfo& address) {
  socket_ = socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol);
  if (socket_ < 0) return std::strerror(errno);
  int error = connect(socket_, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    // An address that does not answer, such as one of IPv6 where that leads nowhere, leaves time for the next.
    constexpr int kPatience_ms = 3000;
    pollfd one = {socket_, POLLOUT, 0};
    const bool silent = address.ai_next != nullptr && poll(&one, 1, kPatience_ms) == 0;
    if (!silent) Wait(POLLOUT);
    socklen_t size = sizeof error;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (silent) error = ETIMEDOUT;
  }
  if (error == 0) return "";
  close(socket_);
  socket_ = -1;
  return std::strerror(error);
}

Socket::Clock::time_point Socket::NextEnd() const {
  return Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(rules_.seconds * 1000));
}

void Socket::Wait(short events) {
  constexpr int64_t kPoll_ms = 200;
  if (rules_.per_wait) end_ = NextEnd();
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
    if (left <= 0) throw RuntimeError(rules_.who, " did not answer in ", rules_.limit, " = ", rules_.seconds);
    if (rules_.gives_up && rules_.gives_up()) throw RuntimeError(rules_.who, " is not waited for any more");
    pollfd one = {socket_, events, 0};
    if (poll(&one, 1, static_cast<int>(std::min<int64_t>(left, kPoll_ms))) != 0) return;
  }
}

}  // namespace trireme
