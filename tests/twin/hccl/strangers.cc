// Plain sockets only: an attacker has no library.
#include "tests/twin/hccl/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace membership_test {

std::string RunAsStranger(bool other_user, const std::function<std::string()>& attack) {
  constexpr uid_t kNobody = 65534;
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("cannot create a pipe");
  const pid_t child = fork();
  if (child == 0) {
    if (other_user && geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(2);
    const std::string report = attack();
    _exit(write(ends[1], report.data(), report.size()) == static_cast<ssize_t>(report.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string report;
  std::array<char, 4096> chunk;
  for (ssize_t count = 0; (count = read(ends[0], chunk.data(), chunk.size())) > 0;) {
    report.append(chunk.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? report : "the unauthenticated client ended with status " + std::to_string(status);
}

namespace {

std::set<std::string> SocketInodes(pid_t process) {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// The lines of a table under /proc/net, split into words, without the header.
std::vector<std::vector<std::string>> ReadTable(const char* path) {
  std::ifstream table(path);
  std::string line;
  std::getline(table, line);
  std::vector<std::vector<std::string>> lines;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    lines.emplace_back();
    for (std::string word; words >> word;) lines.back().push_back(word);
  }
  return lines;
}

}  // namespace

std::vector<std::string> ListedSockets(pid_t process) {
  const std::set<std::string> inodes = SocketInodes(process);
  std::vector<std::string> names;
  for (const auto& line : ReadTable("/proc/net/unix")) {
    const bool ours = line.size() == 8 && line[7].starts_with("@") && inodes.contains(line[6]);
    if (ours) names.push_back(line[7].substr(1));
  }
  return names;
}

std::vector<uint16_t> ListeningPorts(pid_t process) {
  const std::set<std::string> inodes = SocketInodes(process);
  std::vector<uint16_t> ports;
  for (const auto& line : ReadTable("/proc/net/tcp")) {
    constexpr const char* kListens = "0A";
    if (line.size() < 10 || line[3] != kListens || !inodes.contains(line[9])) continue;
    ports.push_back(static_cast<uint16_t>(std::stoul(line[1].substr(line[1].find(':') + 1), nullptr, 16)));
  }
  return ports;
}

int ConnectTo(const std::string& address, uint16_t port) {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &name.sin_addr);
  if (number >= 0 && connect(number, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) return number;
  if (number >= 0) close(number);
  return -1;
}

IdleConnections::IdleConnections(const std::string& address, uint16_t port, int count) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  for (int i = 0; i < count; ++i) {
    const int number = ConnectTo(address, port);
    if (number < 0) break;
    sockets_.push_back(number);
  }
}

IdleConnections::~IdleConnections() {
  for (const int number : sockets_) close(number);
}

size_t Pour(const std::string& address, uint16_t port, const std::string& head, size_t bytes) {
  const int number = ConnectTo(address, port);
  if (number < 0) return 0;
  std::string chunk = head;
  size_t sent = 0;
  while (sent < bytes) {
    chunk.resize(std::min<size_t>(1 << 16, bytes - sent), 'x');
    const ssize_t now = send(number, chunk.data(), chunk.size(), MSG_NOSIGNAL);
    if (now <= 0) break;
    sent += static_cast<size_t>(now);
    chunk.assign(1, 'x');
  }
  close(number);
  return sent;
}

std::string ReadAll(int socket) {
  std::string all;
  std::array<char, 4096> chunk;
  while (true) {
    pollfd readable{socket, POLLIN, 0};
    if (poll(&readable, 1, 500) <= 0) return all;
    const ssize_t count = recv(socket, chunk.data(), chunk.size(), 0);
    if (count <= 0) return all;
    all.append(chunk.data(), static_cast<size_t>(count));
  }
}

}  // namespace membership_test
