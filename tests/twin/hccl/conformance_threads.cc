// Ranks as threads; see conformance_threads.h.
#include "tests/twin/hccl/conformance_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <future>
#include <thread>

namespace conformance {
namespace {

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void OneRank(Rank rank, std::promise<HcclRootInfo>* root_made, std::shared_future<HcclRootInfo> root,
             const std::function<void(Rank&)>& body) {
  ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank.rank)), ACL_SUCCESS);
  ASSERT_EQ(aclrtGetCurrentContext(&rank.context), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateStream(&rank.stream), ACL_SUCCESS);
  if (rank.rank == 0) {
    HcclRootInfo made{};
    EXPECT_EQ(HcclGetRootInfo(&made), HCCL_SUCCESS) << RecentError();
    root_made->set_value(made);
  }
  const HcclRootInfo info = root.get();
  ASSERT_EQ(HcclCommInitRootInfo(rank.size, &info, rank.rank, &rank.comm), HCCL_SUCCESS) << RecentError();
  body(rank);
  if (rank.comm != nullptr) {
    EXPECT_EQ(HcclCommDestroy(rank.comm), HCCL_SUCCESS) << RecentError();
  }
  EXPECT_EQ(aclrtDestroyStreamForce(rank.stream), ACL_SUCCESS);
  EXPECT_EQ(aclrtResetDevice(static_cast<int32_t>(rank.rank)), ACL_SUCCESS);
}

}  // namespace

void RunRanks(uint32_t size, const std::function<void(Rank&)>& body) {
  std::promise<HcclRootInfo> root_made;
  std::shared_future<HcclRootInfo> root(root_made.get_future());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank member;
      member.rank = rank;
      member.size = size;
      OneRank(member, &root_made, root, body);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Outcome Finish(HcclResult call, aclrtStream stream) {
  Outcome outcome;
  outcome.call = call;
  if (call != HCCL_SUCCESS) outcome.text = RecentError();
  outcome.stream = aclrtSynchronizeStream(stream);
  if (outcome.stream != ACL_SUCCESS) outcome.text += RecentError();
  return outcome;
}

void ExpectAllFailedNaming(const std::vector<Outcome>& outcomes, const std::vector<std::string>& words) {
  std::string all;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank].failed()) << "rank " << rank << " reported no error";
    all += "rank " + std::to_string(rank) + ": " + outcomes[rank].text + "\n";
  }
  const bool named = std::any_of(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) {
    return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return Lower(outcome.text).find(Lower(word)) != std::string::npos;
    });
  });
  EXPECT_TRUE(named) << "no message names everything that differs:\n" << all;
}

}  // namespace conformance
