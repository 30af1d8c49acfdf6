// A process that is no rank: of another user where this one is root, and with nothing but what it finds by itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace membership_test {

// Runs `attack` in a process of its own, as user nobody where `other_user` is set and possible, and gives what it
// returns. The process ends with it.
std::string RunAsStranger(bool other_user, const std::function<std::string()>& attack);

// The names of the process's abstract Unix sockets that listen, as everybody can list them. Those of one process:
// other jobs of this machine are left alone.
std::vector<std::string> ListedSockets(pid_t process);

// The ports on which the process listens by TCP.
std::vector<uint16_t> ListeningPorts(pid_t process);

// Connections that say nothing, open until the object goes.
class IdleConnections {
 public:
  // To 127.0.0.1, or wherever `address` is.
  IdleConnections(const std::string& address, uint16_t port, int count);
  ~IdleConnections();
  IdleConnections(const IdleConnections&) = delete;
  IdleConnections& operator=(const IdleConnections&) = delete;
  int opened() const { return static_cast<int>(sockets_.size()); }

 private:
  std::vector<int> sockets_;
};

// Sends up to so many bytes behind `head` and gives how many the other side let it send before it closed.
size_t Pour(const std::string& address, uint16_t port, const std::string& head, size_t bytes);

// All that comes within half a second of silence, or until the other side closes.
std::string ReadAll(int socket);

int ConnectTo(const std::string& address, uint16_t port);

}  // namespace membership_test
