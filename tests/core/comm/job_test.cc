// The job over MPI: ranks, and the few exchanges that start-up needs.
#include "core/comm/job.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

TEST(Job, KnowsItsRankAndWorld) {
  const Job& job = TestJob();
  ASSERT_NE(std::getenv("OMPI_COMM_WORLD_SIZE"), nullptr) << "start this test with mpirun";
  EXPECT_TRUE(job.under_mpi());
  EXPECT_EQ(job.world(), std::stoi(std::getenv("OMPI_COMM_WORLD_SIZE")));
  EXPECT_EQ(job.rank(), std::stoi(std::getenv("OMPI_COMM_WORLD_RANK")));
  EXPECT_EQ(job.local_rank(), std::stoi(std::getenv("OMPI_COMM_WORLD_LOCAL_RANK")));
  EXPECT_EQ(job.local_size(), job.world());
  EXPECT_EQ(job.hosts(), 1);
}

TEST(Job, GathersTextsOfAnyLength) {
  const std::vector<std::string> texts = TestJob().GatherStrings(std::string(TestJob().rank(), 'x'));
  ASSERT_EQ(texts.size(), static_cast<size_t>(TestJob().world()));
  for (int rank = 0; rank < TestJob().world(); ++rank) EXPECT_EQ(texts[rank], std::string(rank, 'x'));
}

TEST(Job, BroadcastsFromAnyRank) {
  for (int root = 0; root < TestJob().world(); ++root) {
    int value = TestJob().rank() * 10 + 1;
    TestJob().BroadcastBytes(&value, sizeof value, root);
    EXPECT_EQ(value, root * 10 + 1);
  }
}

TEST(Job, BroadcastsWithinDisjointGroups) {
  const int rank = TestJob().rank();
  std::vector<int> members;  // even ranks, odd ranks
  for (int member = rank % 2; member < TestJob().world(); member += 2) members.push_back(member);
  int value = rank;
  TestJob().HandOut(members, &value, sizeof value);
  EXPECT_EQ(value, rank % 2);
}

TEST(Job, FindsTheMaximum) { EXPECT_EQ(TestJob().Max(TestJob().rank() * 1.5), (TestJob().world() - 1) * 1.5); }

TEST(Job, NamesTheMpiLibrary) { EXPECT_NE(MpiLibraryVersion().find("MPI"), std::string::npos) << MpiLibraryVersion(); }

}  // namespace
}  // namespace trireme
