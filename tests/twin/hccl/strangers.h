// A process that is not a rank: of another user if this one is root, knowing only what it finds out by
// itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace membership_test {

// Runs `attack` in a separate process, as user nobody where `other_user` is set and possible, and returns its
// result. The process ends with it.
std::string RunAsStranger(bool other_user, const std::function<std::string()>& attack);

// The names of the process's listening abstract Unix sockets, as everybody can list them. Of one process
// only: other jobs on this machine are left alone.
std::vector<std::string> ListedSockets(pid_t process);

// The TCP ports on which the process listens.
std::vector<uint16_t> ListeningPorts(pid_t process);

// Connections that send nothing, open for the lifetime of the object.
class IdleConnections {
 public:
  // To 127.0.0.1, or to `address`.
  IdleConnections(const std::string& address, uint16_t port, int count);
  ~IdleConnections();
  IdleConnections(const IdleConnections&) = delete;
  IdleConnections& operator=(const IdleConnections&) = delete;
  int opened() const { return static_cast<int>(sockets_.size()); }

 private:
  std::vector<int> sockets_;
};

// Sends up to so many bytes after `head` and returns how many the other side accepted before it closed.
size_t Pour(const std::string& address, uint16_t port, const std::string& head, size_t bytes);

// Everything received until half a second of silence, or until the other side closes.
std::string ReadAll(int socket);

int ConnectTo(const std::string& address, uint16_t port);

}  // namespace membership_test
