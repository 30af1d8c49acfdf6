// The world, the case loop and the program's main for the matrix tests; see conformance_matrix.h.
#include "tests/twin/hccl/conformance_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace conformance {
namespace {

constexpr int kMaxReports = 20;
int reports = 0;

[[noreturn]] void Die(const std::string& what, int code) {
  std::fprintf(stderr, "rank %u: %s returned %d: %s\n", TheWorld().rank, what.c_str(), code, RecentError().c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void Report(const std::string& text) {
  if (++reports <= kMaxReports) ADD_FAILURE() << "rank " << TheWorld().rank << ": " << text;
  if (reports == kMaxReports + 1) ADD_FAILURE() << "further mismatches are counted, not printed";
  if (reports > kMaxReports) ::testing::Test::RecordProperty("mismatches", reports);
}

std::string FirstDifference(const Bytes& actual, const Bytes& expected) {
  const auto [a, e] = std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
  if (a == actual.end() && e == expected.end()) return "";
  const auto place = static_cast<size_t>(a - actual.begin());
  if (a == actual.end() || e == expected.end()) return "sizes differ";
  return "byte " + std::to_string(place) + " of " + std::to_string(expected.size()) + " is " + std::to_string(*a) +
         ", wanted " + std::to_string(*e);
}

void CallAndWait(const Case& c, const std::string& variant, void* send, void* receive) {
  Need(c.call(send, receive), variant);
  NeedAcl(aclrtSynchronizeStream(TheWorld().stream), variant + ", synchronising the stream");
}

void RunOutOfPlace(const Case& c, Memory memory, const std::string& variant) {
  Buffer send(memory, c.send);
  Buffer receive(memory, Untouched(c.expected.size()));
  CallAndWait(c, variant, send.data(), receive.data());
  const std::string wrong = FirstDifference(receive.Read(), c.expected);
  if (!wrong.empty()) Report(variant + ": " + wrong);
  if (!receive.guards_intact()) Report(variant + ": wrote outside the receive buffer");
  const std::string changed = FirstDifference(send.Read(), c.send);
  if (!changed.empty() || !send.guards_intact()) Report(variant + ": changed the send buffer, " + changed);
}

void RunInPlace(const Case& c, Memory memory, const std::string& variant) {
  const bool receive_is_outer = c.in_place == InPlace::kSendInsideReceive;
  Bytes before = receive_is_outer ? Untouched(c.expected.size()) : c.send;
  if (receive_is_outer) std::copy(c.send.begin(), c.send.end(), before.begin() + c.in_place_offset);
  Buffer outer(memory, before);
  uint8_t* inner = outer.data() + c.in_place_offset;
  CallAndWait(c, variant, receive_is_outer ? inner : outer.data(), receive_is_outer ? outer.data() : inner);
  Bytes after = outer.Read();
  // The contents of the send buffer outside the result are unspecified.
  const size_t first = receive_is_outer ? 0 : c.in_place_offset;
  after = Bytes(after.begin() + first, after.begin() + first + c.expected.size());
  const std::string wrong = c.in_place_result ? FirstDifference(after, c.expected) : "";
  if (!wrong.empty()) Report(variant + ": " + wrong);
  if (!outer.guards_intact()) Report(variant + ": wrote outside the buffer");
}

}  // namespace

World& TheWorld() {
  static World world;
  return world;
}

void Need(HcclResult code, const std::string& what) {
  if (code != HCCL_SUCCESS) Die(what, code);
}

void NeedAcl(aclError code, const std::string& what) {
  if (code != ACL_SUCCESS) Die(what, code);
}

void StartWorld() {
  World& world = TheWorld();
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  world.rank = rank;
  world.size = size;
  NeedAcl(aclInit(nullptr), "aclInit");
  NeedAcl(aclrtSetDevice(rank), "aclrtSetDevice");
  NeedAcl(aclrtCreateStream(&world.stream), "aclrtCreateStream");
  HcclRootInfo root{};
  if (rank == 0) Need(HcclGetRootInfo(&root), "HcclGetRootInfo");
  MPI_Bcast(&root, sizeof(root), MPI_BYTE, 0, MPI_COMM_WORLD);
  Need(HcclCommInitRootInfo(world.size, &root, world.rank, &world.comm), "HcclCommInitRootInfo");
}

void StopWorld() {
  World& world = TheWorld();
  Need(HcclCommDestroy(world.comm), "HcclCommDestroy");
  NeedAcl(aclrtDestroyStream(world.stream), "aclrtDestroyStream");
  NeedAcl(aclrtResetDevice(world.rank), "aclrtResetDevice");
  NeedAcl(aclFinalize(), "aclFinalize");
}

Bytes Untouched(size_t bytes) { return Bytes(bytes, 0x5A); }

void RunCase(const Case& c) {
  const bool overlaps = c.in_place != InPlace::kNever;
  for (const Memory memory : {Memory::kDevice, Memory::kHost}) {
    const std::string variant = c.name + (memory == Memory::kDevice ? ", device memory" : ", host memory");
    RunOutOfPlace(c, memory, variant);
    if (overlaps) RunInPlace(c, memory, variant + ", in place");
  }
  // Ranks may choose differently.
  if (TheWorld().rank % 2 == 0) {
    RunOutOfPlace(c, Memory::kDevice, c.name + ", mixed: device memory");
  } else if (overlaps) {
    RunInPlace(c, Memory::kHost, c.name + ", mixed: host memory, in place");
  } else {
    RunOutOfPlace(c, Memory::kHost, c.name + ", mixed: host memory");
  }
}

}  // namespace conformance

// Every rank runs every case; only rank 0 lists them, but each prints its own failures.
int main(int argc, char** argv) {
  setenv("HCCL_EXEC_TIMEOUT", "60", 1);
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ::testing::GTEST_FLAG(brief) = rank != 0;
  ::testing::InitGoogleTest(&argc, argv);
  conformance::StartWorld();
  const int failed = RUN_ALL_TESTS();
  conformance::StopWorld();
  MPI_Finalize();
  return failed;
}
