// Main of tests under mpirun. The first failure ends the whole job: other ranks may be waiting for the one
// that failed.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <optional>

#include "core/base/log.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

Job* the_job = nullptr;
const Device* the_device = nullptr;
std::unique_ptr<CommunicatorSet> the_world;

class EndJobOnFailure : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << LogRankPrefix() << (result.file_name() != nullptr ? result.file_name() : "") << ":"
              << result.line_number() << ": " << result.message() << std::endl;
    the_job->Abort(1);
  }
};

int Run(int argc, char** argv) {
  Job job;
  SetLogRank(job.rank());
  const Device device = Device::ForLocalRank(job.local_rank());
  the_job = &job;
  the_device = &device;
  testing::InitGoogleTest(&argc, argv);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (job.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new EndJobOnFailure);  // GoogleTest owns it
  const int status = RUN_ALL_TESTS();
  the_world.reset();
  return status;
}

// Every rank is data-parallel: its tensor-parallel group is the rank itself.
CommunicatorSet& Groups() {
  if (!the_world) {
    const Grids grids = MakeGrids(the_job->world(), {});
    const GroupPlan plan(grids, {{.name = "world", .axes = {"tp", "cp", "dp", "pp"}, .buffer_mb = 16},
                                 {.name = "alone", .axes = {"tp"}, .buffer_mb = 16}});
    the_world = std::make_unique<CommunicatorSet>(*the_job, *the_device, plan, CommOptions{});
  }
  return *the_world;
}

}  // namespace

Job& TestJob() { return *the_job; }
const Device& TestDevice() { return *the_device; }

Communicator& World() { return Groups().Get("world"); }
Communicator& Alone() { return Groups().Get("alone"); }

}  // namespace trireme

int main(int argc, char** argv) { return trireme::Run(argc, argv); }
