// The hang watch and unauthenticated clients: floods, partial messages, huge messages. The watch keeps
// working, and accepts nothing from a client that does not know its secret.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/comm/watch_channel.h"

namespace trireme {
namespace {

int ConnectPlain(const std::string& host, uint16_t port) {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &name.sin_addr);
  if (number >= 0 && connect(number, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) return number;
  if (number >= 0) close(number);
  return -1;
}

uint16_t PortOf(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

// Ranks 0 and 1 of a watch, and what they print.
class Watch {
 public:
  Watch() {
    for (int rank : {0, 1}) ledgers_[rank].AddGroup("all", {0, 1});
    zero_ = std::make_unique<WatchChannel>(0, 2, ledgers_[0], Options());
    address_ = zero_->Listen();
  }
  const std::string& address() const { return address_; }

  // Rank 1 joins, rank 0 waits in a call: returns the first report that rank 1 has answered.
  std::string FirstAnswered() {
    one_ = std::make_unique<WatchChannel>(1, 2, ledgers_[1], Options());
    one_->Connect(address_);
    ledgers_[0].Issued(0, 1, "all_reduce");
    ledgers_[0].Reached(0, 1);
    std::unique_lock lock(mutex_);
    const auto answered = [&] { return last_.find("rank 1: has not issued it") != std::string::npos; };
    printed_.wait_for(lock, std::chrono::seconds(60), answered);
    return last_;
  }

 private:
  WatchOptions Options() {
    WatchOptions options;
    options.limit_s = 0.2;
    options.look_every_s = 0.05;
    options.answer_within_s = 1;
    options.print = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      last_ = text;
      printed_.notify_all();
    };
    return options;
  }

  std::mutex mutex_;
  std::condition_variable printed_;
  std::string last_;
  Ledger ledgers_[2];
  std::string address_;
  std::unique_ptr<WatchChannel> zero_, one_;
};

// A process forked before this one had threads; it runs `attack` on the port it receives.
class Attacker {
 public:
  explicit Attacker(const std::function<int(uint16_t)>& attack) {
    if (pipe(to_) != 0 || pipe(from_) != 0) throw std::runtime_error("cannot create a pipe");
    process_ = fork();
    if (process_ != 0) return;
    close(to_[1]);
    uint16_t port = 0;
    if (read(to_[0], &port, sizeof port) != sizeof port) _exit(1);
    const int result = attack(port);
    if (write(from_[1], &result, sizeof result) != sizeof result) _exit(1);
    (void)!read(to_[0], &port, sizeof port);  // stays alive until the parent releases it
    _exit(0);
  }
  ~Attacker() {
    for (int end : {to_[0], to_[1], from_[0], from_[1]}) close(end);
    waitpid(process_, nullptr, 0);
  }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  int Attack(uint16_t port) {
    int result = -1;
    if (write(to_[1], &port, sizeof port) != sizeof port) return -1;
    return read(from_[0], &result, sizeof result) == sizeof result ? result : -1;
  }

 private:
  int to_[2], from_[2];
  pid_t process_;
};

int OpenMany(uint16_t port) {
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  int opened = 0;
  while (opened < 1500 && ConnectPlain("127.0.0.1", port) >= 0) ++opened;
  return opened;
}

// How many MB of one message the watch accepts from 20 connections.
int PourMany(uint16_t port) {
  int64_t taken = 0;
  for (int i = 0; i < 20; ++i) {
    const int socket = ConnectPlain("127.0.0.1", port);
    const uint32_t length = 60 << 20;
    std::string chunk(reinterpret_cast<const char*>(&length), sizeof length);
    chunk.resize(1 << 16, 'H');
    for (ssize_t now = 1; now > 0 && taken < int64_t{i + 1} * length;) {
      now = send(socket, chunk.data(), chunk.size(), MSG_NOSIGNAL);
      if (now > 0) taken += now;
    }
  }
  return static_cast<int>(taken >> 20);
}

int SayHalf(uint16_t port) {
  int said = 0;
  for (int i = 0; i < 50; ++i) said += write(ConnectPlain("127.0.0.1", port), "TRI", 3) == 3;
  return said;
}

TEST(WatchStrangers, IdleConnectionsUseNoDescriptors) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  Attacker attacker(OpenMany);
  const rlimit few = {400, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  {
    Watch watch;
    EXPECT_GT(attacker.Attack(PortOf(watch.address())), 1000);
    usleep(500'000);  // gives rank 0 time to accept
    std::vector<int> files;
    for (int i = 0; i < 100; ++i) files.push_back(open("/dev/null", O_RDONLY));
    EXPECT_GE(files.back(), 0) << "unauthenticated clients used up the process's descriptors";
    for (int file : files) close(file);
    const std::string report = watch.FirstAnswered();
    EXPECT_NE(report.find("rank 1: has not issued it"), std::string::npos) << report;
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(WatchStrangers, LargeMessagesAreNotAccepted) {
  Attacker attacker(PourMany);
  Watch watch;
  // What the kernel's socket buffers hold does not count.
  EXPECT_LT(attacker.Attack(PortOf(watch.address())), 300) << "MB were accepted from unauthenticated clients";
  const std::string report = watch.FirstAnswered();
  EXPECT_NE(report.find("rank 1: has not issued it"), std::string::npos) << report;
}

TEST(WatchStrangers, PartialMessagesDelayNobody) {
  Attacker attacker(SayHalf);
  Watch watch;
  EXPECT_EQ(attacker.Attack(PortOf(watch.address())), 50);
  const std::string report = watch.FirstAnswered();
  EXPECT_NE(report.find("rank 1: has not issued it"), std::string::npos) << report;
}

TEST(WatchStrangers, OnlyOneInterfaceListens) {
  const Watch watch;
  const uint16_t port = PortOf(watch.address());
  const int there = ConnectPlain("127.0.0.1", port);
  EXPECT_GE(there, 0);
  close(there);
  EXPECT_LT(ConnectPlain("127.0.0.2", port), 0) << "another interface answers as well";
}

}  // namespace
}  // namespace trireme
