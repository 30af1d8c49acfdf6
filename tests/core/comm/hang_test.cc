// The hang watch inside the communicator set: a late rank is named, with group, operation and number; work
// continues.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

TEST(HangWatch, ReportsWhoHasNotArrived) {
  const int world = TestJob().world();
  if (world == 1) return;  // nobody to wait for
  const GroupPlan plan(MakeGrids(world, {}), {{.name = "dp-cp", .axes = {"cp", "dp"}, .buffer_mb = 4}});
  const CommunicatorSet groups(TestJob(), TestDevice(), plan, {.hang_report_s = 0.3});
  Communicator& group = groups.Get("dp-cp");
  group.Barrier().Wait();
  const int late = world - 1;
  if (TestJob().rank() == 0) testing::internal::CaptureStderr();
  const DeviceBuffer data = ToDevice(std::vector<float>(10, 1));
  if (TestJob().rank() == late) std::this_thread::sleep_for(std::chrono::seconds(4));
  group.AllReduce(data.data(), data.data(), 10, DType::kFp32, ReduceOp::kSum).Wait();
  EXPECT_EQ(ToHost<float>(data), std::vector<float>(10, static_cast<float>(world)));
  if (TestJob().rank() != 0) return;
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_NE(report.find("all_reduce #2 of 40 B on dp-cp [0"), std::string::npos) << report;
  EXPECT_NE(report.find(Concat("missing: rank ", late, ": has not issued it")), std::string::npos) << report;
}

// Saving and exporting synchronise over MPI, which waits silently.
TEST(HangWatch, SeesWhoIsMissingFromMpi) {
  const int world = TestJob().world();
  if (world == 1) return;
  const GroupPlan plan(MakeGrids(world, {}), {{.name = "dp-cp", .axes = {"cp", "dp"}, .buffer_mb = 4}});
  const CommunicatorSet groups(TestJob(), TestDevice(), plan, {.hang_report_s = 0.3});
  TestJob().Barrier();
  const int late = world - 1;
  if (TestJob().rank() == 0) testing::internal::CaptureStderr();
  if (TestJob().rank() == late) std::this_thread::sleep_for(std::chrono::seconds(4));
  TestJob().Barrier();
  if (TestJob().rank() != 0) return;
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_NE(report.find("communication hangs: MPI_Barrier #2 on mpi [0"), std::string::npos) << report;
  EXPECT_NE(report.find(Concat("missing: rank ", late, ": has not issued it")), std::string::npos) << report;
}

TEST(HangWatch, IsSilentWhileWorkContinues) {
  const int world = TestJob().world();
  const GroupPlan plan(MakeGrids(world, {}), {{.name = "dp", .axes = {"dp"}, .buffer_mb = 4}});
  const CommunicatorSet groups(TestJob(), TestDevice(), plan, {.hang_report_s = 0.5});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 15; ++i) {
    groups.Get("dp").Barrier().Wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace trireme
