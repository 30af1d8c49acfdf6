// Hang reports from constructed states: complete texts, for each way in which ranks can wait for one another.
#include "core/comm/hang_report.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// A world of ranks whose groups are filled in by hand.
class World {
 public:
  explicit World(int size) {
    for (int rank = 0; rank < size; ++rank) states_.push_back({.rank = rank});
  }

  GroupState& Group(int rank, const std::string& name, const std::vector<int>& members) {
    for (GroupState& group : states_[rank].groups) {
      if (group.name == name) return group;
    }
    GroupState& group = states_[rank].groups.emplace_back();
    group.name = name;
    group.members = members;
    group.sent.resize(members.size());
    group.received.resize(members.size());
    return group;
  }

  // The rank has completed all earlier collectives and waits in this one.
  void Waits(int rank, const std::string& name, const std::vector<int>& members, const std::string& operation,
             uint64_t sequence, double seconds) {
    GroupState& group = Group(rank, name, members);
    group.issued = group.collectives_issued = group.collectives_reached = sequence;
    group.done = sequence - 1;
    group.oldest = group.latest = {.sequence = sequence,
                                   .operation = operation,
                                   .collective = sequence,
                                   .issued_s = seconds,
                                   .reached_s = seconds};
  }

  // The rank's last collective in the group was this one, and it is complete.
  void HasDone(int rank, const std::string& name, const std::vector<int>& members, const std::string& operation,
               uint64_t sequence, double seconds_ago) {
    GroupState& group = Group(rank, name, members);
    group.issued = group.done = group.collectives_issued = group.collectives_reached = sequence;
    group.latest = {.sequence = sequence, .operation = operation, .collective = sequence, .issued_s = seconds_ago};
  }

  void Answers(int rank, RankState::Answer answer) { states_[rank].answer = answer; }
  HangReport Report(double limit_s = 60) const { return MakeHangReport(states_, limit_s); }

 private:
  std::vector<RankState> states_;
};

// Writing a checkpoint takes time; the rank that writes it still answers, and waits for nobody.
TEST(HangReport, ARankAtWorkIsGivenTimeBeforeOthersInMpiComplain) {
  World world(2);
  world.Waits(1, kMpiGroup, {0, 1}, "MPI_Barrier", 3, 200);
  world.HasDone(0, kMpiGroup, {0, 1}, "MPI_Bcast", 2, 201);
  EXPECT_EQ(world.Report().text, "");
  world.Waits(1, kMpiGroup, {0, 1}, "MPI_Barrier", 3, 301);
  EXPECT_NE(world.Report().text.find("MPI_Barrier #3 on mpi [0,1] has waited 301 s"), std::string::npos)
      << world.Report().text;
}

TEST(HangReport, AStoppedRankIsNamedToThoseThatWaitInMpi) {
  World world(2);
  world.Waits(0, kMpiGroup, {0, 1}, "MPI_Barrier", 3, 61);
  world.Answers(1, RankState::Answer::kSilent);
  EXPECT_EQ(world.Report().text,
            "communication hangs: MPI_Barrier #3 on mpi [0,1] has waited 61 s\n"
            "  arrived: 0\n"
            "  missing: rank 1: no answer, but its process is alive\n");
}

TEST(HangReport, OneInMpiAndOneInACollectiveIsAHangAtOnce) {
  World world(2);
  world.Waits(0, kMpiGroup, {0, 1}, "MPI_Barrier", 3, 61);
  world.Waits(1, "dp", {0, 1}, "all_reduce", 7, 62);
  world.HasDone(0, "dp", {0, 1}, "all_reduce", 6, 70);
  world.HasDone(1, kMpiGroup, {0, 1}, "MPI_Barrier", 2, 80);
  const std::string text = world.Report().text;
  EXPECT_NE(text.find("MPI_Barrier #3 on mpi [0,1]"), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce #7 on dp [0,1]"), std::string::npos) << text;
}

TEST(HangReport, ARankKnowsWhatItWaitsForItself) {
  Ledger ledger;
  ledger.AddGroup("dp", {0, 3});
  EXPECT_EQ(OwnHangReport(ledger.Snapshot(3), 0), "");
  ledger.Issued(0, 1, "all_reduce", 4 << 20);
  ledger.Reached(0, 1);
  const std::string text = OwnHangReport(ledger.Snapshot(3), 0);
  EXPECT_EQ(text.rfind("communication hangs on rank 3; rank 0, which gathers the reports, does not answer", 0), 0u)
      << text;
  EXPECT_NE(text.find("\n  all_reduce #1 on dp [0,3] of 4 MB has waited 0.0 s\n"), std::string::npos) << text;
}

TEST(HangReport, NothingWaitsLongEnough) {
  World world(2);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 42, 59);
  EXPECT_EQ(world.Report().text, "");
  EXPECT_EQ(World(2).Report().text, "");
}

TEST(HangReport, AGroupOfOneWaitsForNobody) {
  World world(1);
  world.Waits(0, "tp", {0}, "all_reduce", 42, 100);
  EXPECT_EQ(world.Report().text, "");
}

TEST(HangReport, OneRankHasNotIssuedTheCall) {
  World world(4);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 42, 61);
  world.HasDone(1, "tp", {0, 1}, "all_reduce", 41, 75);
  world.HasDone(1, "dp-cp", {1, 3}, "all_gather", 7, 12);
  EXPECT_EQ(world.Report().text,
            "communication hangs: all_reduce #42 on tp [0,1] has waited 61 s\n"
            "  arrived: 0\n"
            "  missing: rank 1: has not issued it; last issued all_gather #7 on dp-cp [1,3] 12 s ago, done\n");
  EXPECT_EQ(world.Report().cause, "all_reduce #42 on tp [0,1]");
}

TEST(HangReport, SizeIsShown) {
  World world(2);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 1, 61);
  world.Group(0, "tp", {}).oldest.bytes = 64 << 20;
  EXPECT_EQ(world.Report().text,
            "communication hangs: all_reduce #1 of 64 MB on tp [0,1] has waited 61 s\n"
            "  arrived: 0\n"
            "  missing: rank 1: has not issued it; has issued nothing yet\n");
}

TEST(HangReport, RanksThatDoNotAnswer) {
  World world(5);
  const std::vector<int> all = {0, 1, 2, 3, 4};
  world.Waits(0, "world", all, "barrier", 3, 61);
  world.Answers(1, RankState::Answer::kGone);
  world.Answers(2, RankState::Answer::kSilent);
  world.Answers(3, RankState::Answer::kLeft);
  world.Answers(4, RankState::Answer::kNeverCame);
  EXPECT_EQ(world.Report().text,
            "communication hangs: barrier #3 on world [0,1,2,3,4] has waited 61 s\n"
            "  arrived: 0\n"
            "  missing: rank 1: no answer: process gone\n"
            "  missing: rank 2: no answer, but its process is alive\n"
            "  missing: rank 3: has left the job\n"
            "  missing: rank 4: never joined the hang watch\n");
}

TEST(HangReport, IssuedButItsStreamIsBusy) {
  World world(2);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 5, 61);
  world.HasDone(1, "tp", {0, 1}, "all_reduce", 4, 70);
  GroupState& group = world.Group(1, "tp", {});
  group.issued = group.collectives_issued = 5;
  group.oldest = group.latest = {.sequence = 5, .operation = "all_reduce", .collective = 5, .issued_s = 62};
  EXPECT_EQ(world.Report().text,
            "communication hangs: all_reduce #5 on tp [0,1] has waited 61 s\n"
            "  arrived: 0\n"
            "  missing: rank 1: has issued it, but its stream has not reached it; last issued all_reduce #5 on tp "
            "[0,1] 62 s ago, not done\n");
}

TEST(HangReport, TheCauseComesFirst) {
  // 0 waits for 1, 1 waits for 3, and 3 computes: the second stall is the cause, although the first is older.
  World world(4);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 9, 80);
  world.Waits(1, "dp-cp", {1, 3}, "all_gather", 4, 70);
  world.HasDone(3, "tp", {2, 3}, "all_reduce", 8, 65);
  EXPECT_EQ(world.Report().text,
            "communication hangs: all_gather #4 on dp-cp [1,3] has waited 70 s\n"
            "  arrived: 1\n"
            "  missing: rank 3: has not issued it; last issued all_reduce #8 on tp [2,3] 65 s ago, done\n"
            "  blocked by it:\n"
            "    all_reduce #9 on tp [0,1] for 80 s, missing 1\n");
}

TEST(HangReport, ACauseJustBelowTheLimitCounts) {
  World world(4);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 9, 60.5);
  world.Waits(1, "dp-cp", {1, 3}, "all_gather", 4, 59.9);
  EXPECT_EQ(world.Report().cause, "all_gather #4 on dp-cp [1,3]");
}

TEST(HangReport, ACycleHasNoCause) {
  World world(2);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 1, 61);
  world.Waits(1, "world", {0, 1}, "barrier", 1, 62);
  EXPECT_EQ(world.Report().text,
            "communication hangs: deadlock: ranks wait for each other; they issue calls in different orders\n"
            "barrier #1 on world [0,1] has waited 62 s\n"
            "  arrived: 1\n"
            "  missing: rank 0: has not issued it; waits for 61 s in all_reduce #1 on tp [0,1]\n"
            "all_reduce #1 on tp [0,1] has waited 61 s\n"
            "  arrived: 0\n"
            "  missing: rank 1: has not issued it; waits for 62 s in barrier #1 on world [0,1]\n");
}

TEST(HangReport, AllHaveArrivedButCallDifferentOperations) {
  World world(2);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 6, 61);
  world.Waits(1, "tp", {0, 1}, "all_gather", 6, 60);
  EXPECT_EQ(world.Report().text,
            "communication hangs: all_reduce #6 on tp [0,1] has waited 61 s\n"
            "  arrived: 0,1\n"
            "  missing: none; the transfer itself is stuck (link or device)\n"
            "  the ranks disagree on #6: rank 0 calls all_reduce, rank 1 calls all_gather\n");
}

TEST(HangReport, TheEarliestCallOfAGroupCounts) {
  // 0 has passed #6, which 1 has not finished, and waits in #7.
  World world(3);
  world.Waits(0, "tp", {0, 1, 2}, "all_reduce", 7, 70);
  world.Waits(1, "tp", {0, 1, 2}, "broadcast", 6, 65);
  EXPECT_EQ(world.Report().cause, "broadcast #6 on tp [0,1,2]");
}

TEST(HangReport, CollectivesMatchByTheirCountNotTheirNumber) {
  // Rank 0 issued three messages before its first collective, rank 1 none: both are in the same barrier.
  World world(3);
  world.Waits(0, "pp", {0, 1, 2}, "barrier", 1, 61);
  world.Group(0, "pp", {}).oldest.sequence = 4;
  world.Waits(1, "pp", {0, 1, 2}, "barrier", 1, 60);
  EXPECT_EQ(world.Report().text,
            "communication hangs: barrier #4 on pp [0,1,2] has waited 61 s\n"
            "  arrived: 0,1\n"
            "  missing: rank 2: has not issued it; has issued nothing yet\n");
}

TEST(HangReport, PointToPointMatchesByMessages) {
  // 4 has sent its third message to 8 and awaits the second from 0. 8 has posted three receives, 0 only one
  // send.
  World world(9);
  const std::vector<int> pp = {0, 4, 8};
  GroupState& waiting = world.Group(4, "pp", pp);
  waiting.issued = 5;
  waiting.done = 4;
  waiting.oldest = waiting.latest = {.sequence = 5,
                                     .operation = "batch_send_receive",
                                     .issued_s = 61,
                                     .reached_s = 61,
                                     .messages = {{8, true, 3}, {0, false, 2}}};
  world.Group(8, "pp", pp).received = {0, 3, 0};
  world.Group(0, "pp", pp).sent = {0, 1, 0};
  EXPECT_EQ(world.Report().text,
            "communication hangs: batch_send_receive #5 on pp [0,4,8] (to rank 8 message 3, from rank 0 "
            "message 2) has "
            "waited 61 s\n"
            "  arrived: 4,8\n"
            "  missing: rank 0: has not issued it; has issued nothing yet\n");
}

TEST(HangReport, TwoIndependentCausesAreBothReported) {
  World world(4);
  world.Waits(0, "tp", {0, 1}, "all_reduce", 2, 61);
  world.Waits(2, "tp", {2, 3}, "all_reduce", 3, 62);
  EXPECT_EQ(world.Report().text,
            "communication hangs: all_reduce #3 on tp [2,3] has waited 62 s\n"
            "  arrived: 2\n"
            "  missing: rank 3: has not issued it; has issued nothing yet\n"
            "all_reduce #2 on tp [0,1] has waited 61 s\n"
            "  arrived: 0\n"
            "  missing: rank 1: has not issued it; has issued nothing yet\n");
}

}  // namespace
}  // namespace trireme
