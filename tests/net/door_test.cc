// The door: clients that know the secret get in alongside any number that do not; those are few, and soon
// dropped.
#include "net/door.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "net/secret.h"

namespace {
std::function<void()> before_accept;  // what clients do while the door accepts one connection after another
}

// In place of the C library's.
extern "C" int accept4(int listener, sockaddr* name, socklen_t* bytes, int flags) {
  if (before_accept) before_accept();
  return static_cast<int>(syscall(SYS_accept4, listener, name, bytes, flags));
}

namespace net {
namespace {

using State = Handshake::State;

// A listener on the loopback interface.
struct Listener {
  Listener() : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(name);
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&name), bytes), 0);
    EXPECT_EQ(listen(socket.get(), SOMAXCONN), 0);
    EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &bytes), 0);
  }
  Fd Connect() const {
    Fd client(::socket(AF_INET, SOCK_STREAM, 0));
    if (connect(client.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) return {};
    return client;
  }
  Fd socket;
  sockaddr_in name{};
};

// Polls the door until someone is in; invalid after ten seconds.
Fd AwaitOne(Door& door) {
  for (int i = 0; i < 200; ++i) {
    pollfd readable{door.descriptor(), POLLIN, 0};
    poll(&readable, 1, 50);
    std::vector<Fd> admitted = door.Admit();
    if (!admitted.empty()) return std::move(admitted.front());
  }
  return {};
}

State ProveSoon(const Fd& socket, const Key& key) {
  return ProveAsClient(socket.get(), key, std::chrono::steady_clock::now() + std::chrono::seconds(10));
}

bool EndsSoon(const Fd& socket, Door& door) {
  for (int i = 0; i < 200; ++i) {
    door.Admit();
    char bytes[256];
    const ssize_t count = recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    usleep(10'000);
  }
  return false;
}

TEST(Door, AcceptsClientsThatKnowTheSecret) {
  const Key key{NewSecret(), "door"};
  const Listener listener;
  Door door(listener.socket.get(), key);
  const Fd client = listener.Connect();
  State state{};
  std::thread other([&] { state = ProveSoon(client, key); });
  const Fd inside = AwaitOne(door);
  other.join();
  EXPECT_TRUE(inside.valid());
  EXPECT_EQ(state, State::kProven);
  EXPECT_EQ(door.strangers(), 0u);
}

TEST(Door, RefusesClientsThatDoNot) {
  const Listener listener;
  Door door(listener.socket.get(), {NewSecret(), "door"});
  const Fd client = listener.Connect();
  State state{};
  std::atomic<bool> done = false;
  std::thread other([&] {
    state = ProveSoon(client, {NewSecret(), "door"});
    done = true;
  });
  while (!done) EXPECT_TRUE(door.Admit().empty());
  other.join();
  EXPECT_EQ(state, State::kRefused);
  EXPECT_TRUE(EndsSoon(client, door));
}

TEST(Door, HoldsFewUnauthenticatedClientsAndStillAccepts) {
  const Key key{NewSecret(), "door"};
  const Listener listener;
  Door door(listener.socket.get(), key, {.strangers = 8, .patience_s = 60});
  std::vector<Fd> strangers;
  for (int i = 0; i < 50; ++i) strangers.push_back(listener.Connect());
  door.Admit();
  EXPECT_EQ(door.strangers(), 8u);
  EXPECT_TRUE(EndsSoon(strangers.front(), door)) << "the oldest must be dropped";
  const Fd client = listener.Connect();
  std::thread other([&] { EXPECT_EQ(ProveSoon(client, key), State::kProven); });
  EXPECT_TRUE(AwaitOne(door).valid());
  other.join();
}

// A client proves itself while so many others are accepted that it is the oldest to be dropped.
TEST(Door, AProvenClientIsNotDroppedWithTheOldest) {
  const Key key{NewSecret(), "door"};
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM, 0));  // a local socket has the other side's bytes at once
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof(name.sun_family);  // the kernel chooses a name
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), bytes), 0);
  ASSERT_EQ(listen(listener.get(), SOMAXCONN), 0);
  bytes = sizeof(name);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &bytes), 0);
  std::vector<Fd> clients;
  for (int i = 0; i < 9; ++i) {
    clients.emplace_back(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(connect(clients.back().get(), reinterpret_cast<sockaddr*>(&name), bytes), 0);
  }
  Door door(listener.get(), key, {.strangers = 4, .patience_s = 60});
  Handshake client(clients.front().get(), Handshake::Side::kClient, key);
  before_accept = [&] { client.Advance(); };
  const std::vector<Fd> admitted = door.Admit();
  before_accept = nullptr;
  EXPECT_EQ(admitted.size(), 1u);
  EXPECT_EQ(client.Advance(), State::kProven);
  EXPECT_EQ(door.strangers(), 4u);
}

TEST(Door, TimesOut) {
  const Listener listener;
  Door door(listener.socket.get(), {NewSecret(), "door"}, {.strangers = 8, .patience_s = 0.2});
  const Fd stranger = listener.Connect();
  door.Admit();
  EXPECT_EQ(door.strangers(), 1u);
  // Nothing else arrives: the door's own timer wakes the caller.
  for (int i = 0; i < 50 && door.strangers() > 0; ++i) {
    pollfd readable{door.descriptor(), POLLIN, 0};
    ASSERT_GT(poll(&readable, 1, 10'000), 0);
    door.Admit();
  }
  EXPECT_EQ(door.strangers(), 0u);
}

TEST(Door, SurvivesAProcessWithoutDescriptors) {
  const Key key{NewSecret(), "door"};
  const Listener listener;
  Door door(listener.socket.get(), key);
  const Fd client = listener.Connect();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{static_cast<rlim_t>(client.get()) + 1, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(door.Admit().empty());
  pollfd readable{door.descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0) << "the caller would spin";
  setrlimit(RLIMIT_NOFILE, &before);
  std::thread other([&] { EXPECT_EQ(ProveSoon(client, key), State::kProven); });
  EXPECT_TRUE(AwaitOne(door).valid());
  other.join();
}

}  // namespace
}  // namespace net
