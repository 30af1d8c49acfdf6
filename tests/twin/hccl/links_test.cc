// Links under two threads: bytes arrive complete and in order, whatever the sizes in which they are pushed
// and popped.
#include "twin/hccl/data_path/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/twin/hccl/datapath_ranks.h"

namespace {

using twin_test::Memory;
using twin_test::Ranks;

class LinkTest : public testing::TestWithParam<Memory> {};

std::vector<std::byte> RandomBytes(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> data(bytes);
  for (auto& b : data) b = static_cast<std::byte>(random());
  return data;
}

// Sends `out` and receives `in` over one link, in pieces of random size, letting the other thread run in
// between.
void Move(twin::Link& link, const std::vector<std::byte>& out, std::vector<std::byte>& in, uint32_t seed) {
  std::mt19937 random(seed);
  size_t sent = 0, received = 0;
  bool out_ended = out.empty(), in_ended = in.empty();
  while (!out_ended || !in_ended || !link.flushed()) {
    link.Progress();
    const size_t limit = 1 + random() % 100'000;
    const auto room = link.Reserve();
    if (const size_t n = std::min({room.size(), out.size() - sent, limit}); n > 0) {
      std::memcpy(room.data(), out.data() + sent, n);
      link.Push(n);
      sent += n;
    }
    const auto come = link.Peek();
    if (const size_t n = std::min({come.size(), in.size() - received, limit}); n > 0) {
      std::memcpy(in.data() + received, come.data(), n);
      link.Pop(n);
      received += n;
    }
    if (!out_ended && sent == out.size()) link.EndOutgoing(), out_ended = true;
    if (!in_ended && received == in.size()) link.EndIncoming(), in_ended = true;
    std::this_thread::yield();
  }
}

TEST_P(LinkTest, CarriesBytesBothWaysInAnyPieces) {
  Ranks ranks(2, GetParam());
  const std::vector<size_t> sizes = {1, 63, 64, 65, 100'003, 0, 3'000'001, 7, 262'144, 262'143};
  ranks.Run([&](uint32_t rank) {
    twin::Link& link = ranks.group(rank).data_path->link(1 - rank);
    for (uint32_t round = 0; round < sizes.size(); ++round) {
      // The two directions carry different sizes at the same time.
      const size_t mine = sizes[(round + rank) % sizes.size()], its = sizes[(round + 1 - rank) % sizes.size()];
      std::vector<std::byte> in(its);
      Move(link, RandomBytes(mine, 2 * round + rank), in, 100 + rank);
      ASSERT_EQ(in, RandomBytes(its, 2 * round + 1 - rank)) << "round " << round;
    }
  });
}

TEST_P(LinkTest, StopsWhenFullAndResumesWhenRead) {
  Ranks ranks(2, GetParam());
  twin::Link& writer = ranks.group(0).data_path->link(1);
  twin::Link& reader = ranks.group(1).data_path->link(0);
  size_t pushed = 0;
  for (int idle = 0; idle < 3;) {
    writer.Progress();
    const auto room = writer.Reserve();
    std::fill(room.begin(), room.end(), std::byte{7});
    writer.Push(room.size());
    pushed += room.size();
    idle = room.empty() ? idle + 1 : 0;
  }
  EXPECT_GT(pushed, 0u);
  size_t popped = 0;
  while (popped < pushed) {
    writer.Progress();
    reader.Progress();
    const auto come = reader.Peek();
    for (const std::byte b : come) ASSERT_EQ(b, std::byte{7});
    popped += come.size();
    reader.Pop(come.size());
  }
  EXPECT_FALSE(writer.Reserve().empty());
}

INSTANTIATE_TEST_SUITE_P(Links, LinkTest, testing::Values(Memory::kPrivate, Memory::kRemote),
                         [](const auto& info) { return twin_test::Name(info.param); });

}  // namespace
