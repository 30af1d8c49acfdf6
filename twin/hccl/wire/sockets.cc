// Opening, accepting and polling stream sockets; frames are in frame_io.cc.
#include "twin/hccl/wire/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "twin/hccl/settings.h"

namespace twin {
namespace {

[[noreturn]] void SystemFailure(HcclResult code, const std::string& what) {
  throw HcclFailure(code, what + ": " + std::strerror(errno));
}

Fd OpenSocket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) SystemFailure(HCCL_E_SYSCALL, "cannot create a socket");
  return socket;
}

sockaddr_in TcpName(const std::string& address, uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1) {
    throw HcclFailure(HCCL_E_PARA, "'" + address + "' is not an IPv4 address");
  }
  return name;
}

bool Bind(const Fd& socket, const sockaddr_in& name) {
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
}

std::pair<sockaddr_un, socklen_t> UnixName(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::copy_n(name.data(), length, address.sun_path + 1);  // a leading zero byte: the abstract namespace
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)};
}

}  // namespace

Deadline After(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

Fd ListenTcp(const std::string& address, uint16_t base_port, uint16_t* port) {
  for (uint32_t offset = 0; offset <= kPortCount; ++offset) {
    // A new socket for each attempt: after a failed listen the old one stays bound.
    Fd socket = OpenSocket(AF_INET);
    const int reuse = 1;  // connections of an earlier listener may linger on the port
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    const uint16_t wanted = offset < kPortCount ? static_cast<uint16_t>(base_port + offset) : 0;
    if (!Bind(socket, TcpName(address, wanted)) || listen(socket.get(), SOMAXCONN) != 0) {
      if (errno == EADDRINUSE) continue;
      SystemFailure(HCCL_E_NETWORK, "cannot listen on " + address + " port " + std::to_string(wanted));
    }
    sockaddr_in taken{};
    socklen_t length = sizeof(taken);
    if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&taken), &length) != 0) {
      SystemFailure(HCCL_E_NETWORK, "cannot read the port of the new listener on " + address);
    }
    *port = ntohs(taken.sin_port);
    MakeNonBlocking(socket.get());
    return socket;
  }
  throw HcclFailure(HCCL_E_NETWORK, "no free port on " + address);
}

Fd ConnectTcp(const std::string& address, uint16_t port, Deadline deadline) {
  const std::string where = address + " port " + std::to_string(port);
  Fd socket = OpenSocket(AF_INET);
  MakeNonBlocking(socket.get());
  const sockaddr_in name = TcpName(address, port);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    if (errno != EINPROGRESS) SystemFailure(HCCL_E_TCP_CONNECT, "cannot connect to " + where);
    pollfd writable{socket.get(), POLLOUT, 0};
    int ready = 0;
    do {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - After(0)).count();
      ready = poll(&writable, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000)));
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) throw HcclFailure(HCCL_E_TIMEOUT, "no answer from " + where + " within the connect timeout");
    int outcome = 0;
    socklen_t length = sizeof(outcome);
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &outcome, &length);
    errno = outcome;
    if (outcome != 0) SystemFailure(HCCL_E_TCP_CONNECT, "cannot connect to " + where);
  }
  WatchTcp(socket.get());
  return socket;
}

Fd ListenUnix(const std::string& name) {
  Fd socket = OpenSocket(AF_UNIX);
  const auto [address, length] = UnixName(name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    SystemFailure(HCCL_E_SYSCALL, "cannot listen on the Unix socket " + name);
  }
  MakeNonBlocking(socket.get());
  return socket;
}

Fd ConnectUnix(const std::string& name) {
  Fd socket = OpenSocket(AF_UNIX);
  const auto [address, length] = UnixName(name);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    SystemFailure(HCCL_E_TCP_CONNECT, "cannot connect to the Unix socket " + name);
  }
  return socket;
}

void WatchTcp(int socket) {
  const auto set = [socket](int level, int option, int value) {
    if (setsockopt(socket, level, option, &value, sizeof(value)) != 0) {
      SystemFailure(HCCL_E_NETWORK, "cannot set a socket option");
    }
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void MakeNonBlocking(int socket) {
  const int flags = fcntl(socket, F_GETFL);
  if (flags < 0 || fcntl(socket, F_SETFL, flags | O_NONBLOCK) < 0) {
    SystemFailure(HCCL_E_SYSCALL, "cannot make a socket non-blocking");
  }
}

bool WaitReadable(const std::vector<int>& sockets, Deadline deadline) {
  std::vector<pollfd> polled;
  for (const int socket : sockets) polled.push_back({socket, POLLIN, 0});
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - After(0)).count();
    const int wait_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
    const int ready = poll(polled.data(), polled.size(), wait_ms);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) SystemFailure(HCCL_E_SYSCALL, "poll failed");
    if (wait_ms == 0) return false;
  }
}

}  // namespace twin
