// Unauthenticated processes that try to join a job, or to make it fail: what they learn, what they receive,
// and that the communicator forms anyway. They speak the library's own frames and know everything that a
// listing shows.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "acl/acl.h"
#include "tests/twin/hccl/membership_processes.h"
#include "tests/twin/hccl/strangers.h"
#include "twin/hccl/membership/rootinfo.h"
#include "twin/hccl/wire/sockets.h"

namespace membership_test {
namespace {

constexpr uint32_t kRanks = 2;

std::string Join(const HcclRootInfo& info, uint32_t rank) {
  HcclComm comm = nullptr;
  std::string wrong = Check(HcclCommInitRootInfo(kRanks, &info, rank, &comm), HCCL_SUCCESS, "init");
  if (!wrong.empty()) return wrong;
  return Check(HcclCommDestroy(comm), HCCL_SUCCESS, "destroy");
}

// An introduction as a rank sends it to a member's socket, with the id that a listing or a log shows.
twin::Frame Introduction(const std::string& id, uint32_t rank) {
  return twin::FrameWriter()
      .Put(id)
      .Put(rank)
      .Put(uint32_t{0})
      .Put(uint64_t{4096})
      .Take(twin::FrameType::kIntroduction);
}

// A hello to the rendezvous in the library's own format.
twin::Frame Hello(const std::string& id, uint32_t size) {
  twin::FrameWriter writer;
  writer.Put(id).Put(size).Put(std::string("agreement")).Put(5.0).Put(uint32_t{0});
  for (int text = 0; text < 3; ++text) writer.Put(std::string("stranger"));
  writer.Put(int64_t{1}).Put(int32_t{0}).Put(std::string("nowhere")).Put(std::string("127.0.0.1"));
  return writer.Put(uint16_t{1}).Take(twin::FrameType::kHello);
}

std::string Frame(const twin::Frame& frame, uint64_t bytes) {
  const twin::FrameHeader header{.type = frame.type, .bytes = bytes};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + frame.payload;
}

// How many descriptors a client receives that introduces itself as rank 1 at every listed socket.
std::string Introduce(const std::string& id, const std::vector<std::string>& names) {
  size_t files = 0;
  std::vector<twin::Fd> sockets;
  for (const std::string& name : names) {
    try {
      sockets.push_back(twin::ConnectUnix(name));
      twin::SendFrame(sockets.back().get(), Introduction(id, 1), twin::After(5));
    } catch (const twin::HcclFailure&) {
      continue;  // not accepted at all
    }
  }
  for (const twin::Fd& socket : sockets) {
    twin::FrameBuffer input;
    while (twin::WaitReadable({socket.get()}, twin::After(3)) && input.Fill(socket.get())) continue;
    files += input.TakeFiles().size();
  }
  return std::to_string(sockets.size()) + " sockets, " + std::to_string(files) + " files";
}

class Strangers : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    SetConnectTimeout("20");
    setenv("HCCL_BUFFSIZE", "1", 1);
    setenv("HCCL_IF_IP", "127.0.0.1", 1);
  }
  void TearDown() override {
    unsetenv("TWIN_HCCL_TRANSPORT");
    unsetenv("HCCL_IF_IP");
  }
};
INSTANTIATE_TEST_SUITE_P(User, Strangers, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Another" : "TheSame"; });

// Rank 0 is present and listens; rank 1 joins only after the attacker has done its worst.
std::string WithRankZeroWaiting(const std::function<std::string(const HcclRootInfo&, pid_t)>& attack) {
  Stage stage;
  std::array<int, 2> go{};
  if (pipe(go.data()) != 0) return "cannot create a pipe";
  Processes ranks(kRanks, [&](uint32_t rank) -> std::string {
    const HcclRootInfo info = stage.RootInfo(0, rank);
    char byte = 0;
    if (rank == 1 && read(go[0], &byte, 1) != 1) return "cannot read the pipe";
    return Join(info, rank);
  });
  const HcclRootInfo info = stage.RootInfo(0, 1);
  while (ListedSockets(ranks.Id(0)).empty()) usleep(2000);
  usleep(50'000);  // rank 0 starts to listen just before it contacts the rendezvous
  const std::string report = attack(info, ranks.Id(0));
  EXPECT_EQ(write(go[1], "", 1), 1);
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.Wait(rank), "") << "rank " << rank;
  close(go[0]);
  close(go[1]);
  return report;
}

TEST_P(Strangers, ReceiveNoDeviceMemory) {
  std::array<int, 2> report{};
  ASSERT_EQ(pipe(report.data()), 0);
  WithRankZeroWaiting([&](const HcclRootInfo& info, pid_t process) {
    const std::string id = twin::DecodeRootInfo(info).id;
    const std::vector<std::string> names = ListedSockets(process);
    for (const std::string& name : names) {
      EXPECT_EQ(name.find(id), std::string::npos) << "the listing shows the id: " << name;
    }
    // It queues at rank 0 before rank 1 does, hence the separate process that stays alive.
    if (fork() == 0) {
      const std::string got = RunAsStranger(GetParam(), [&] { return Introduce(id, names); });
      _exit(write(report[1], got.data(), got.size()) > 0 ? 0 : 1);
    }
    usleep(500'000);
    return "";
  });
  close(report[1]);
  std::array<char, 256> text{};
  ASSERT_GT(read(report[0], text.data(), text.size() - 1), 0);
  close(report[0]);
  EXPECT_NE(std::string(text.data()).find(" 0 files"), std::string::npos) << text.data();
}

TEST_P(Strangers, LearnNothingFromTheRendezvous) {
  WithRankZeroWaiting([&](const HcclRootInfo& info, pid_t) {
    const twin::RootInfo root = twin::DecodeRootInfo(info);
    const std::string said = RunAsStranger(GetParam(), [&] {
      const int socket = ConnectTo(root.address, root.port);
      twin::SendFrame(socket, Hello("a guess", kRanks), twin::After(5));
      return ReadAll(socket);
    });
    EXPECT_EQ(said.find(root.id), std::string::npos) << "the answer to a wrong id contains the right one";
    EXPECT_EQ(said.find("127.0.0.1"), std::string::npos) << said;
    return "";
  });
}

TEST_P(Strangers, CannotEndAJobWithAHello) {
  WithRankZeroWaiting([&](const HcclRootInfo& info, pid_t) {
    const twin::RootInfo root = twin::DecodeRootInfo(info);
    return RunAsStranger(GetParam(), [&]() -> std::string {
      const int socket = ConnectTo(root.address, root.port);
      twin::SendFrame(socket, Hello(root.id, 99), twin::After(5));
      ReadAll(socket);
      return "";
    });
  });
}

TEST_P(Strangers, CannotFillRankZerosMemory) {
  WithRankZeroWaiting([&](const HcclRootInfo& info, pid_t) {
    const twin::RootInfo root = twin::DecodeRootInfo(info);
    const std::string sent = RunAsStranger(GetParam(), [&] {
      constexpr size_t kBytes = 60 << 20;
      return std::to_string(Pour(root.address, root.port, Frame(Hello(root.id, 2), kBytes), kBytes) >> 20);
    });
    // What the kernel's socket buffers hold does not count.
    EXPECT_LT(std::stoi(sent), 30) << "MB were accepted from an unauthenticated client";
    return "";
  });
}

TEST(StrangerFloods, OfIdleConnectionsDoNotEndTheJob) {
  SetConnectTimeout("30");
  setenv("HCCL_IF_IP", "127.0.0.1", 1);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{256, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);  // for the ranks, which inherit it
  std::vector<std::unique_ptr<IdleConnections>> flood;
  WithRankZeroWaiting([&](const HcclRootInfo& info, pid_t process) {
    const twin::RootInfo root = twin::DecodeRootInfo(info);
    for (const uint16_t port : ListeningPorts(process)) {
      flood.push_back(std::make_unique<IdleConnections>(root.address, port, 1500));
      EXPECT_GT(flood.back()->opened(), 1000);
    }
    return "";
  });
  flood.clear();
  setrlimit(RLIMIT_NOFILE, &before);
  unsetenv("HCCL_IF_IP");
}

// A client that sends a partial frame to every port and socket of rank 0 delays nobody.
TEST(StrangerFloods, OfPartialFramesDelayNobody) {
  for (const char* transport : {"", "tcp"}) {
    SetConnectTimeout("8");
    setenv("HCCL_IF_IP", "127.0.0.1", 1);
    if (*transport != '\0') setenv("TWIN_HCCL_TRANSPORT", transport, 1);
    std::vector<twin::Fd> sockets;
    WithRankZeroWaiting([&](const HcclRootInfo& info, pid_t process) {
      const twin::RootInfo root = twin::DecodeRootInfo(info);
      for (const uint16_t port : ListeningPorts(process)) sockets.emplace_back(ConnectTo(root.address, port));
      for (const std::string& name : ListedSockets(process)) sockets.push_back(twin::ConnectUnix(name));
      for (const twin::Fd& socket : sockets) (void)!write(socket.get(), "LHWT", 4);
      return "";
    });
    unsetenv("TWIN_HCCL_TRANSPORT");
    unsetenv("HCCL_IF_IP");
  }
}

}  // namespace
}  // namespace membership_test
