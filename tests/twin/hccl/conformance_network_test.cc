// Ranks on two hosts: collectives over TCP, with every way of selecting the interface; that the data really
// crossed the cable; and a host that is lost. Where the kernel forbids namespaces the test prints why and
// counts as skipped.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/twin/hccl/conformance_network.h"
#include "tests/twin/hccl/conformance_processes.h"
#include "tests/twin/hccl/conformance_watchdog.h"

namespace conformance {
namespace {

constexpr HcclDataType kType = HCCL_DATA_TYPE_FP32;
constexpr HcclReduceOp kSum = HCCL_REDUCE_SUM;
constexpr double kPatience = 40;
constexpr size_t kCount = 1 << 20;
constexpr int kSkipped = 77;

TwoHosts* hosts = nullptr;

int HostOf(uint32_t rank, uint32_t size) { return rank < size / 2 ? 0 : 1; }

// Each step checks its own result; the number of the first wrong one is returned, 0 if all are right.
int Collectives(Member& me) {
  const auto n = me.size;
  std::vector<float> all(kCount, static_cast<float>(me.rank + 1)), part(kCount / 4), whole(n * kCount / 4);
  const auto wait = [&](HcclResult call) {
    return call == HCCL_SUCCESS && aclrtSynchronizeStream(me.stream) == ACL_SUCCESS;
  };
  const auto filled = [](const std::vector<float>& values, size_t first, size_t count, float wanted) {
    return std::all_of(values.begin() + first, values.begin() + first + count, [&](float v) { return v == wanted; });
  };
  const float total = n * (n + 1) / 2.0f;
  if (!wait(HcclAllReduce(all.data(), all.data(), kCount, kType, kSum, me.comm, me.stream))) return 1;
  if (!filled(all, 0, kCount, total)) return 2;
  std::fill(part.begin(), part.end(), static_cast<float>(me.rank));
  if (!wait(HcclAllGather(part.data(), whole.data(), part.size(), kType, me.comm, me.stream))) return 3;
  for (uint32_t r = 0; r < n; ++r) {
    if (!filled(whole, r * part.size(), part.size(), static_cast<float>(r))) return 4;
  }
  if (!wait(HcclReduceScatter(whole.data(), part.data(), part.size(), kType, kSum, me.comm, me.stream))) return 5;
  if (!filled(part, 0, part.size(), static_cast<float>(me.rank * n))) return 6;
  std::fill(whole.begin(), whole.end(), static_cast<float>(me.rank));
  std::vector<float> exchanged(whole.size());
  const size_t each = kCount / 4;
  if (!wait(HcclAlltoAll(whole.data(), each, kType, exchanged.data(), each, kType, me.comm, me.stream))) return 7;
  for (uint32_t r = 0; r < n; ++r) {
    if (!filled(exchanged, r * each, each, static_cast<float>(r))) return 8;
  }
  std::fill(part.begin(), part.end(), static_cast<float>(me.rank));
  if (!wait(HcclBroadcast(part.data(), part.size(), kType, n - 1, me.comm, me.stream))) return 9;
  if (!filled(part, 0, part.size(), static_cast<float>(n - 1))) return 10;
  const uint32_t peer = (me.rank + n / 2) % n;  // on the other host
  HcclSendRecvItem items[] = {{HCCL_SEND, whole.data(), each, kType, peer},
                              {HCCL_RECV, exchanged.data(), each, kType, peer}};
  if (!wait(HcclBatchSendRecv(items, 2, me.comm, me.stream))) return 11;
  if (!filled(exchanged, 0, each, static_cast<float>(peer))) return 12;
  return wait(HcclBarrier(me.comm, me.stream)) ? 0 : 13;
}

struct Choice {
  const char* name;
  const char* interfaces;  // HCCL_SOCKET_IFNAME, empty: unset
  bool by_address;         // HCCL_IF_IP
};

void RunChoice(const Choice& choice, uint32_t size) {
  SCOPED_TRACE(std::string(choice.name) + ", " + std::to_string(size) + " ranks");
  Environment environment = {{"HCCL_BUFFSIZE", "4"}, {"HCCL_EXEC_TIMEOUT", "30"}};
  if (*choice.interfaces) environment.push_back({"HCCL_SOCKET_IFNAME", choice.interfaces});
  Processes ranks(
      size, environment,
      [](Member& me) {
        me.report().call = me.Join();
        if (me.comm != nullptr) {
          const uint64_t before = SentBytes();
          me.report().stream = Collectives(me);
          me.report().at = static_cast<double>(SentBytes() - before);
        }
        std::snprintf(me.report().text, sizeof(Report::text), "%s", RecentError().c_str());
        me.Reached(1);
        if (me.comm != nullptr) me.AwaitRelease(1);
      },
      [&](uint32_t rank) {
        const int host = HostOf(rank, size);
        hosts->Enter(host);
        if (choice.by_address) setenv("HCCL_IF_IP", TwoHosts::address(host).c_str(), 1);
      });
  for (uint32_t rank = 0; rank < size; ++rank) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 1, kPatience)) << "rank " << rank << " hangs";
    const Report& report = ranks.report(rank);
    ASSERT_EQ(report.call, HCCL_SUCCESS) << "rank " << rank << " could not join: " << report.text;
    EXPECT_EQ(report.stream, 0) << "rank " << rank << ", the step that failed: " << report.text;
    EXPECT_GE(report.at, 4.0 * kCount) << "fewer bytes crossed the cable than the all-reduce alone needs";
  }
  ranks.Release(1);
  for (uint32_t rank = 0; rank < size; ++rank) EXPECT_TRUE(ranks.EndedWell(rank, kPatience)) << rank;
}

class ConformanceNetwork : public ::testing::TestWithParam<Choice> {};

TEST_P(ConformanceNetwork, DataCrossesTheCable) {
  RunChoice(GetParam(), 2);
  if (!HasFailure()) RunChoice(GetParam(), 4);
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceNetwork,
                         ::testing::Values(Choice{"ByAddress", "", true}, Choice{"AddressBeatsName", "=dcy0", true},
                                           Choice{"Prefix", "jd", false}, Choice{"PrefixList", "eth,jd", false},
                                           Choice{"NotPrefix", "^dcy", false}, Choice{"Exact", "=jd0", false},
                                           Choice{"NotExact", "^=dcy0", false}),
                         [](const auto& info) { return info.param.name; });

TEST(ConformanceNetworkRules, AMissingInterfaceIsAnError) {
  Processes ranks(
      1, {{"HCCL_SOCKET_IFNAME", "=nosuch0"}},
      [](Member& me) {
        me.report().call = HcclGetRootInfo(&me.shared->root);
        std::snprintf(me.report().text, sizeof(Report::text), "%s", RecentError().c_str());
        me.Reached(1);
      },
      [](uint32_t) { hosts->Enter(0); });
  ASSERT_TRUE(ranks.AwaitStage(0, 1, kPatience));
  EXPECT_NE(ranks.report(0).call, HCCL_SUCCESS);
  EXPECT_NE(std::string(ranks.report(0).text).find("nosuch0"), std::string::npos) << ranks.report(0).text;
}

void WaitForFailure(Member& me) {
  if (me.Join() != HCCL_SUCCESS) _exit(6);
  float value = 1;
  if (HcclAllReduce(&value, &value, 1, kType, kSum, me.comm, me.stream) != HCCL_SUCCESS) _exit(5);
  if (aclrtSynchronizeStream(me.stream) != ACL_SUCCESS) _exit(5);
  me.Reached(1);
  if (me.rank + 1 == me.size) me.Linger();
  const HcclResult call = HcclAllReduce(&value, &value, 1, kType, kSum, me.comm, me.stream);
  me.Record(call, aclrtSynchronizeStream(me.stream));
  me.Reached(2);
}

TEST(ConformanceNetworkRules, ARankThatDiesOnTheOtherHostIsNoticedInTime) {
  Processes ranks(4, {{"HCCL_BUFFSIZE", "4"}, {"HCCL_SOCKET_IFNAME", "=jd0"}}, WaitForFailure,
                  [](uint32_t rank) { hosts->Enter(HostOf(rank, 4)); });
  for (uint32_t rank = 0; rank < 4; ++rank) ASSERT_TRUE(ranks.AwaitStage(rank, 1, kPatience)) << rank;
  const double killed = ranks.Kill(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks.AwaitStage(rank, 2, kPatience)) << "rank " << rank << " hangs";
    EXPECT_LE(ranks.report(rank).at - killed, 5.0) << ranks.report(rank).text;
    EXPECT_EQ(ranks.report(rank).async, HCCL_E_REMOTE);
  }
}

}  // namespace
}  // namespace conformance

namespace {

pid_t tests = 0;

// On a termination request, the program ends its tests first, then removes the hosts as always.
void EndTests(int) { kill(tests, SIGKILL); }

}  // namespace

// The tests run in a child process, so that the namespaces are removed whatever happens to them.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  conformance::TwoHosts two_hosts;
  if (!two_hosts.ready()) {
    std::printf("SKIPPED LOUDLY: this kernel or user may not create network namespaces; failed: %s\n",
                two_hosts.problem().c_str());
    return conformance::kSkipped;
  }
  conformance::hosts = &two_hosts;
  tests = fork();
  if (tests == 0) {
    conformance::GuardEveryTest(180);
    const int failed = RUN_ALL_TESTS();
    std::fflush(nullptr);
    _exit(failed);
  }
  if (tests < 0) return 1;
  std::signal(SIGTERM, EndTests);
  std::signal(SIGINT, EndTests);
  int status = 0;
  while (waitpid(tests, &status, 0) != tests) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
