// What a rank reports about itself while MPI waits, and what a hang watch's ledger records of it. No MPI
// here.
#include "core/comm/mpi_waits.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <mutex>

#include "core/base/error.h"
#include "core/comm/hang_report.h"

namespace trireme {
namespace {

class Lines {
 public:
  void Add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    all_ += text;
    ++count_;
    added_.notify_all();
  }
  std::string Await(int count) {
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, std::chrono::seconds(30), [&] { return count_ >= count; });
    return all_;
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::string all_;
  int count_ = 0;
};

TEST(MpiWaits, ReportsWhatItWaitsForAndForHowLong) {
  Lines lines;
  MpiWaits waits("rank 1 on host a", 0.1, [&](const std::string& text) { lines.Add(text); });
  const MpiWaits::Call call(&waits, "MPI_Init");
  const std::string text = lines.Await(2);  // and says it again later
  EXPECT_EQ(text.rfind("rank 1 on host a has waited 0 s in MPI_Init: another rank has not reached it", 0), 0u) << text;
}

TEST(MpiWaits, IsSilentAboutShortCallsAndWhenTurnedOff) {
  Lines lines;
  const auto print = [&](const std::string& text) { lines.Add(text); };
  MpiWaits waits("rank 1", 0.3, print);
  for (int i = 0; i < 50; ++i) {
    const MpiWaits::Call call(&waits, "MPI_Barrier");
    usleep(10'000);
  }
  EXPECT_EQ(lines.count(), 0);
  waits.set_limit(0);
  const MpiWaits::Call call(&waits, "MPI_Barrier");
  usleep(500'000);
  EXPECT_EQ(lines.count(), 0);
}

TEST(MpiWaits, TheLedgerGetsTheCallsWhileAWatchIsAttached) {
  Lines lines;
  Ledger ledger;
  MpiWaits waits("rank 1", 0.1, [&](const std::string& text) { lines.Add(text); });
  waits.Attach(&ledger, 2);
  {
    const MpiWaits::Call call(&waits, "MPI_Bcast");
  }
  {
    const MpiWaits::Call call(&waits, "MPI_Barrier");
    usleep(300'000);
    EXPECT_EQ(lines.count(), 0) << "the watch reports, not the rank";
    EXPECT_TRUE(WaitsLongerThan(ledger.Snapshot(1), 0.2));
    const GroupState state = ledger.Snapshot(1).groups.at(0);
    EXPECT_EQ(state.name, kMpiGroup);
    EXPECT_EQ(state.members, (std::vector<int>{0, 1}));
    EXPECT_EQ(state.oldest.operation, "MPI_Barrier");
    EXPECT_EQ(state.oldest.collective, 2u);
  }
  EXPECT_EQ(ledger.Snapshot(1).groups.at(0).done, 2u);
  waits.Detach(&ledger);
  const MpiWaits::Call call(&waits, "MPI_Finalize");
  EXPECT_NE(lines.Await(1).find("MPI_Finalize"), std::string::npos);
  EXPECT_EQ(ledger.Snapshot(1).groups.at(0).issued, 2u);
}

TEST(MpiWaits, TheVariableIsANumber) {
  setenv("TRIREME_HANG_REPORT_SECONDS", "5", 1);
  EXPECT_EQ(MpiWaits::DefaultLimit_s(), 5);
  setenv("TRIREME_HANG_REPORT_SECONDS", "soon", 1);
  EXPECT_THROW(MpiWaits::DefaultLimit_s(), Error);
  unsetenv("TRIREME_HANG_REPORT_SECONDS");
  EXPECT_EQ(MpiWaits::DefaultLimit_s(), 60);
}

}  // namespace
}  // namespace trireme
