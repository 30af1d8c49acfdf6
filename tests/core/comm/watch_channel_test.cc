// The hang watch with several ranks as threads, and as processes of which one is killed. Uses no MPI.
#include "core/comm/watch_channel.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "core/comm/watch_codec.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Reports, as printed.
class Reports {
 public:
  void Add(const std::string& text) {
    if (const double seconds = held_up_s_.exchange(0)) usleep(static_cast<useconds_t>(1e6 * seconds));
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
    times_.push_back(Clock::now());
    added_.notify_all();
  }
  // The next one takes so long to print.
  void HoldUp(double seconds) { held_up_s_ = seconds; }
  // When each was printed, including those that Next has returned.
  std::vector<Clock::time_point> times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  // The next one; empty if none arrives in time.
  std::string Next(double seconds = 30) {
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !texts_.empty(); });
    if (texts_.empty()) return "";
    std::string text = texts_.front();
    texts_.pop_front();
    return text;
  }

 private:
  std::atomic<double> held_up_s_ = 0;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::string> texts_;
  std::vector<Clock::time_point> times_;
};

WatchOptions Quick(Reports* reports, double limit_s = 0.2) {
  WatchOptions options = {.limit_s = limit_s, .look_every_s = 0.05, .answer_within_s = 1, .poll = {}, .print = {}};
  if (reports != nullptr) options.print = [reports](const std::string& text) { reports->Add(text); };
  return options;
}

// The ranks of a job, each with its ledger and a group "all".
struct Ranks {
  Ranks(int world, Reports& reports, double limit_s = 0.2) {
    std::vector<int> members;
    for (int rank = 0; rank < world; ++rank) members.push_back(rank);
    for (int rank = 0; rank < world; ++rank) {
      ledgers.push_back(std::make_unique<Ledger>());
      ledgers[rank]->AddGroup("all", members);
      channels.push_back(std::make_unique<WatchChannel>(rank, world, *ledgers[rank], Quick(&reports, limit_s)));
      if (rank == 0) address = channels[0]->Listen();
      if (rank > 0) channels[rank]->Connect(address);
    }
  }
  void Waits(int rank, uint64_t sequence) {
    ledgers[rank]->Issued(0, sequence, "all_reduce", 1 << 20);
    ledgers[rank]->Reached(0, sequence);
  }

  std::vector<std::unique_ptr<Ledger>> ledgers;
  std::vector<std::unique_ptr<WatchChannel>> channels;
  std::string address;
};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(WatchChannel, OneReportNamesWhoIsMissing) {
  Reports reports;
  Ranks ranks(3, reports);
  ranks.Waits(0, 1);
  ranks.Waits(2, 1);
  std::string text = reports.Next();
  // A rank may still be joining when the first report is due; the next report includes it.
  if (Has(text, "never joined")) text = reports.Next();
  EXPECT_TRUE(Has(text, "all_reduce #1 of 1 MB on all [0,1,2] has waited")) << text;
  EXPECT_TRUE(Has(text, "  arrived: 0,2\n")) << text;
  EXPECT_TRUE(Has(text, "  missing: rank 1: has not issued it; has issued nothing yet\n")) << text;
}

TEST(WatchChannel, ReportsWhenOnlyAnotherRankIsStuck) {
  Reports reports;
  Ranks ranks(2, reports);
  ranks.Waits(1, 1);
  const std::string text = reports.Next();
  EXPECT_TRUE(Has(text, "  missing: rank 0: has not issued it")) << text;
}

TEST(WatchChannel, NothingIsSaidWhereCallsFinish) {
  Reports reports;
  Ranks ranks(2, reports, 1.0);
  for (uint64_t sequence = 1; sequence <= 30; ++sequence) {
    for (int rank : {0, 1}) ranks.Waits(rank, sequence);
    for (int rank : {0, 1}) ranks.ledgers[rank]->Done(0, sequence);
    usleep(50'000);
  }
  EXPECT_EQ(reports.Next(0.3), "");
}

TEST(WatchChannel, TheSameHangIsRepeatedAfterGrowingPauses) {
  Reports reports;
  Ranks ranks(2, reports);
  ranks.Waits(0, 1);
  for (int i = 0; i < 3; ++i) ASSERT_NE(reports.Next(), "");
  const auto times = reports.times();
  const auto pause_s = [&](int i) { return std::chrono::duration<double>(times[i + 1] - times[i]).count(); };
  EXPECT_GE(pause_s(0), 0.99 * 0.2);
  EXPECT_GE(pause_s(1), 0.99 * 0.4);
}

TEST(WatchChannel, ASlowPrinterShortensNoPause) {
  Reports reports;
  reports.HoldUp(0.3);
  Ranks ranks(2, reports);
  ranks.Waits(0, 1);
  for (int i = 0; i < 2; ++i) ASSERT_NE(reports.Next(), "");
  const auto times = reports.times();
  EXPECT_GE(std::chrono::duration<double>(times[1] - times[0]).count(), 0.99 * 0.2);
}

TEST(WatchChannel, ARankThatLeftInOrderIsNamedSo) {
  Reports reports;
  Ranks ranks(2, reports);
  ranks.Waits(0, 1);
  ASSERT_NE(reports.Next(), "");  // by now rank 1 has joined
  ranks.channels[1].reset();
  std::string text = reports.Next();
  if (!Has(text, "has left the job")) text = reports.Next();
  EXPECT_TRUE(Has(text, "missing: rank 1: has left the job")) << text;
}

TEST(WatchChannel, RankZeroMayLeaveFirst) {
  Reports reports;
  Ranks ranks(3, reports);
  ranks.Waits(2, 1);
  ASSERT_NE(reports.Next(), "");
  ranks.channels[0].reset();
  ranks.channels[1].reset();
  usleep(200'000);  // rank 2 is stuck and has nobody to report to
  ranks.channels[2].reset();
  EXPECT_EQ(reports.Next(0.01), "");
}

TEST(WatchChannel, StopsWhileStillConnecting) {
  Ledger ledger;
  WatchChannel channel(1, 2, ledger, Quick(nullptr));
  channel.Connect("token@127.0.0.1:1");  // nobody listens there
}

TEST(WatchChannel, AnUnauthenticatedClientIsRefused) {
  Reports reports;
  Ranks ranks(2, reports);
  const std::string place = ranks.address.substr(ranks.address.find('@') + 1);
  for (const std::string hello : {"wrong 1", "", "x", "1"}) {
    auto socket = ConnectTo(place);
    ASSERT_TRUE(socket);
    socket->Send(kWatchHello, hello);
    for (int i = 0; i < 500 && socket->Receive(); ++i) usleep(10'000);
    EXPECT_FALSE(socket->open());
    const auto answer = socket->Next();
    EXPECT_FALSE(answer && answer->kind == kWatchWelcome);
  }
}

TEST(WatchChannel, PollBringsTheLedgerUpToDate) {
  Reports reports;
  Ledger ledger;
  ledger.AddGroup("all", {0, 1});
  ledger.Issued(0, 1, "all_reduce");
  WatchOptions options = Quick(&reports);
  options.poll = [&] { ledger.Reached(0, 1); };
  WatchChannel channel(0, 2, ledger, options);
  channel.Listen();
  EXPECT_TRUE(Has(reports.Next(), "missing: rank 1: never joined the hang watch"));
}

TEST(WatchChannel, AKilledProcessIsNamedGone) {
  Reports reports;
  Ledger ledger;
  ledger.AddGroup("all", {0, 1, 2});
  ledger.AddGroup("pair", {1, 2});
  int go[2], addresses[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(addresses), 0);
  // The children are forked before this process has threads.
  std::vector<pid_t> children;
  for (int rank : {1, 2}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    close(go[1]);
    char address[512] = {};
    if (read(addresses[0], address, sizeof address) <= 0) _exit(1);
    Ledger own;
    own.AddGroup("all", {0, 1, 2});
    own.AddGroup("pair", {1, 2});
    own.Issued(1, 1, "all_gather");
    own.Done(1, 1);
    {
      WatchChannel channel(rank, 3, own, Quick(nullptr));
      channel.Connect(address);
      char byte;
      if (read(go[0], &byte, 1) < 0) _exit(1);  // until the parent closes it
    }
    _exit(0);
  }
  {
    WatchChannel channel(0, 3, ledger, Quick(&reports));
    std::string address = channel.Listen();
    address.resize(512);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(write(addresses[1], address.data(), 512), 512);
    ledger.Issued(0, 1, "barrier");
    ledger.Reached(0, 1);
    std::string text = reports.Next();
    while (Has(text, "never joined")) text = reports.Next();
    EXPECT_TRUE(Has(text, "missing: rank 1: has not issued it; last issued all_gather #1 on pair [1,2]")) << text;
    kill(children[0], SIGKILL);
    text = reports.Next();
    if (!Has(text, "gone")) text = reports.Next();
    EXPECT_TRUE(Has(text, "missing: rank 1: no answer: process gone\n")) << text;
    EXPECT_TRUE(Has(text, "missing: rank 2: has not issued it; last issued all_gather #1 on pair [1,2]")) << text;
    close(go[0]);
    close(go[1]);
    int status = 0;
    EXPECT_EQ(waitpid(children[0], &status, 0), children[0]);
    EXPECT_EQ(waitpid(children[1], &status, 0), children[1]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  close(addresses[0]);
  close(addresses[1]);
}

// Rank 0 is stopped, as by a debugger or blocked I/O: the others report for themselves.
TEST(WatchChannel, AStoppedRankZeroDoesNotSilenceTheOthers) {
  int addresses[2];
  ASSERT_EQ(pipe(addresses), 0);
  const pid_t zero = fork();
  ASSERT_GE(zero, 0);
  if (zero == 0) {
    Ledger own;
    own.AddGroup("all", {0, 1});
    WatchChannel channel(0, 2, own, Quick(nullptr));
    std::string address = channel.Listen();
    address.resize(512);
    if (write(addresses[1], address.data(), 512) != 512) _exit(1);
    pause();
    _exit(0);
  }
  {
    Reports reports;
    Ledger ledger;
    ledger.AddGroup("all", {0, 1});
    WatchOptions options = Quick(&reports);
    options.answer_within_s = 0.1;
    WatchChannel channel(1, 2, ledger, options);
    char address[512] = {};
    ASSERT_EQ(read(addresses[0], address, sizeof address), 512);
    channel.Connect(address);
    usleep(300'000);  // it has joined by now; if not, the test proves less but does not fail
    kill(zero, SIGSTOP);
    ledger.Issued(0, 1, "all_reduce");
    ledger.Reached(0, 1);
    const std::string text = reports.Next();
    EXPECT_TRUE(Has(text, "communication hangs on rank 1; rank 0, which gathers the reports, does not answer")) << text;
    EXPECT_TRUE(Has(text, "all_reduce #1 on all [0,1]")) << text;
  }
  kill(zero, SIGKILL);
  waitpid(zero, nullptr, 0);
  close(addresses[0]);
  close(addresses[1]);
}

TEST(WatchCodec, AStateSurvivesARoundTrip) {
  Ledger ledger;
  ledger.AddGroup("pp", {3, 7});
  const LedgerMessage messages[] = {{1, true}};
  ledger.Issued(0, 1, "send", 5, messages);
  ledger.Reached(0, 1);
  const RankState state = ledger.Snapshot(3);
  const auto back = DecodeState(EncodeState(state));
  ASSERT_TRUE(back);
  EXPECT_EQ(EncodeState(*back), EncodeState(state));
  EXPECT_EQ(back->groups.at(0).oldest.messages.at(0).peer, 7);
  EXPECT_FALSE(DecodeState("{}"));
  EXPECT_FALSE(DecodeState("\xff not json"));
}

}  // namespace
}  // namespace trireme
