// Every schedule on real ranks with stages that only count: each tensor must reach the right stage, for the
// right micro batch, once. With sleeping stages the time is compared with the simulator's and printed.
#include "parallel/executor/executor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <set>
#include <thread>

#include "parallel/schedule/schedules.h"
#include "parallel/schedule/simulate.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr int64_t kElements = 64;

// Forward adds one to the previous stage's output, backward adds one to the gradient; both carry the micro
// batch.
class CountingStage : public StageWork {
 public:
  CountingStage(int stage, int stages, milliseconds nap) : stage_(stage), stages_(stages), nap_(nap) {}

  at::Tensor Forward(int micro_batch, const at::Tensor& x) override {
    Sleep(1);
    EXPECT_EQ(x.defined(), stage_ > 0);
    if (x.defined()) {
      EXPECT_EQ(x[0].item<float>(), 1000.0F * micro_batch + stage_ - 1);
    }
    EXPECT_TRUE(forward_.insert(micro_batch).second);
    return at::full({kElements}, 1000.0 * micro_batch + stage_, at::kFloat);
  }
  at::Tensor Backward(int micro_batch, const at::Tensor& gradient, const BackwardOptions& options) override {
    Sleep(options.put_off_weights ? 1 : 2);
    EXPECT_EQ(gradient.defined(), stage_ < stages_ - 1);
    if (gradient.defined()) {
      EXPECT_EQ(gradient[0].item<float>(), -1000.0F * micro_batch - stage_ - 1);
    }
    EXPECT_TRUE(forward_.contains(micro_batch) && backward_.insert(micro_batch).second);
    if (!options.put_off_weights) FinishWeights(micro_batch, options.reduce);
    return at::full({kElements}, -1000.0 * micro_batch - stage_, at::kFloat);
  }
  void BackwardWeight(int micro_batch, bool reduce) override {
    Sleep(1);
    EXPECT_TRUE(backward_.contains(micro_batch));
    FinishWeights(micro_batch, reduce);
  }
  void GatherParameters() override { ++gathers_; }
  void FreeParameters() override { ++frees_; }
  void ReduceGradients() override {
    EXPECT_TRUE(reduction_announced_) << "a reduction that was not announced to any weight gradient";
    reduction_announced_ = false;
    ++reductions_;
  }
  at::Tensor EmptyInput(int) override { return at::empty({kElements}, at::kFloat); }
  at::Tensor EmptyGradient(int) override { return at::empty({kElements}, at::kFloat); }

  void ExpectComplete(int micro_batches, int zero) const {
    EXPECT_EQ(static_cast<int>(forward_.size()), micro_batches);
    EXPECT_EQ(static_cast<int>(weights_.size()), micro_batches);
    EXPECT_EQ(reductions_, zero >= 2 ? micro_batches : 1);
    EXPECT_EQ(gathers_, frees_);
    EXPECT_EQ(gathers_ > 0, zero == 3);
  }

 private:
  void Sleep(int units) const {
    if (nap_.count() > 0) std::this_thread::sleep_for(units * nap_);
  }
  void FinishWeights(int micro_batch, bool reduce) {
    EXPECT_TRUE(weights_.insert(micro_batch).second);
    reduction_announced_ = reduce;
  }

  int stage_, stages_;
  milliseconds nap_;
  std::set<int> forward_, backward_, weights_;
  bool reduction_announced_ = false;
  int gathers_ = 0, frees_ = 0, reductions_ = 0;
};

// All ranks as one pipeline.
class ExecutorOnRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Grids grids = MakeGrids(TestJob().world(), {.pipeline = TestJob().world()});
    const GroupPlan plan(grids, {{.name = "pp", .axes = {"pp"}, .lane = GroupLane::kPipeline, .buffer_mb = 16}});
    groups_ = std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.host_memory = true});
  }
  static void TearDownTestSuite() { groups_.reset(); }
  static double RunTable(const Schedule& schedule, milliseconds nap);

  static inline std::unique_ptr<CommunicatorSet> groups_;
};

// The slowest rank's time for one run, in seconds.
double ExecutorOnRanks::RunTable(const Schedule& schedule, milliseconds nap) {
  const StagePlacement& placement = schedule.placement;
  std::vector<std::unique_ptr<CountingStage>> stages;
  std::vector<StageWork*> chunks;
  for (int chunk = 0; chunk < placement.chunks; ++chunk) {
    const int stage = placement.StageAt(TestJob().rank(), chunk);
    stages.push_back(std::make_unique<CountingStage>(stage, placement.stages(), nap));
    chunks.push_back(stages.back().get());
  }
  Executor executor(schedule, chunks, groups_->Get("pp"));
  TestJob().Barrier();
  const auto start = std::chrono::steady_clock::now();
  executor.Run();
  const double seconds = TestJob().Max(duration<double>(std::chrono::steady_clock::now() - start).count());
  for (const auto& stage : stages) stage->ExpectComplete(schedule.micro_batches, *schedule.zero);
  return seconds;
}

TEST_F(ExecutorOnRanks, EveryScheduleDeliversEveryTensorOnce) {
  const int ranks = TestJob().world();
  for (const std::string& name : ScheduleNames()) {
    for (const int micro_batches : {1, ranks, 2 * ranks, 2 * ranks + 3}) {
      for (const int zero : {0, 1, 2, 3}) {
        SCOPED_TRACE(Concat(name, ", ", micro_batches, " micro batches, zero ", zero));
        const int chunks = name == "interleaved" ? 2 : 1;
        RunTable(MakeSchedule(name, {ranks, micro_batches, chunks}, zero), milliseconds(0));
      }
    }
  }
}

// No limit is checked, since machines are shared. The figures are printed next to the simulator's.
TEST_F(ExecutorOnRanks, SleepingStagesTakeTheSimulatedTime) {
  const int ranks = TestJob().world();
  const milliseconds nap(10);
  for (const std::string& name : ScheduleNames()) {
    if (ranks == 1) continue;
    const int chunks = name == "interleaved" ? 2 : 1;
    const Schedule schedule = MakeSchedule(name, {ranks, 2 * ranks, chunks}, 0);
    const double unit = duration<double>(nap).count();
    const double simulated = Simulate(schedule, {.forward = unit, .backward_input = unit, .backward_weight = unit}).end;
    const double measured = RunTable(schedule, nap);
    if (TestJob().rank() == 0) {
      std::cout << "pp " << ranks << " " << name << ": measured " << measured << " s, simulated " << simulated
                << " s, ratio " << measured / simulated << "\n";
    }
    EXPECT_GE(measured, 0.99 * simulated) << "faster than its own sleeps";
  }
}

}  // namespace
}  // namespace trireme
