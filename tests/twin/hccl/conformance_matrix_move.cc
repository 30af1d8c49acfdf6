// Broadcast, scatter, all-gather(-v) and all-to-all(-v, -vc): every type, every size, in every kind of
// memory, against MPI's own collective on the same bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/twin/hccl/conformance_matrix.h"

namespace conformance {
namespace {

void ForEachTypeAndCount(const std::function<void(const TypeInfo&, size_t, const std::string&)>& body) {
  for (const TypeInfo& type : AllTypes()) {
    for (const size_t count : kCounts) {
      body(type, count, std::string(" of ") + type.name + " x " + std::to_string(count));
    }
  }
}

// Counts, offsets and total size of a partitioned buffer; a gap of `gap` elements before each part.
struct Layout {
  std::vector<uint64_t> counts, places;
  std::vector<int> mpi_counts, mpi_places;  // in bytes
  uint64_t end = 0;

  void Add(uint64_t count, uint64_t gap, size_t width) {
    counts.push_back(count);
    places.push_back(end + gap);
    end += gap + count;
    mpi_counts.push_back(static_cast<int>(count * width));
    mpi_places.push_back(static_cast<int>(places.back() * width));
  }
};

TEST(ConformanceMove, BroadcastEqualsMpi) {
  const World& w = TheWorld();
  uint32_t root = 0;
  ForEachTypeAndCount([&](const TypeInfo& type, size_t count, const std::string& what) {
    root = (root + 1) % w.size;
    const Bytes before = Bits(type.type, w.rank, count);
    Bytes expected = before;
    MPI_Bcast(expected.data(), static_cast<int>(expected.size()), MPI_BYTE, static_cast<int>(root), MPI_COMM_WORLD);
    for (const Memory memory : {Memory::kDevice, Memory::kHost}) {
      Buffer buffer(memory, before);
      Need(HcclBroadcast(buffer.data(), count, type.type, root, w.comm, w.stream), "broadcast" + what);
      NeedAcl(aclrtSynchronizeStream(w.stream), "broadcast" + what + ", synchronising");
      EXPECT_TRUE(buffer.Read() == expected) << what << " from " << root << " on rank " << w.rank;
      EXPECT_TRUE(buffer.guards_intact()) << what;
    }
  });
}

TEST(ConformanceMove, ScatterEqualsMpi) {
  const World& w = TheWorld();
  uint32_t root = 0;
  ForEachTypeAndCount([&](const TypeInfo& type, size_t count, const std::string& what) {
    root = (root + 1) % w.size;
    const int bytes = static_cast<int>(count * type.bytes);
    const Bytes send = Bits(type.type, w.rank, count * w.size);
    Bytes expected(bytes);
    MPI_Scatter(send.data(), bytes, MPI_BYTE, expected.data(), bytes, MPI_BYTE, static_cast<int>(root), MPI_COMM_WORLD);
    RunCase({.name = "scatter" + what, .send = send, .expected = expected, .call = [=, &w](void* s, void* r) {
               return HcclScatter(s, r, count, type.type, root, w.comm, w.stream);
             }});
  });
}

TEST(ConformanceMove, AllGatherEqualsMpi) {
  const World& w = TheWorld();
  ForEachTypeAndCount([&](const TypeInfo& type, size_t count, const std::string& what) {
    const Bytes send = Bits(type.type, w.rank, count);
    const int bytes = static_cast<int>(send.size());
    Bytes expected(send.size() * w.size);
    MPI_Allgather(send.data(), bytes, MPI_BYTE, expected.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
    RunCase({.name = "all-gather" + what,
             .send = send,
             .expected = expected,
             .in_place = InPlace::kSendInsideReceive,
             .in_place_offset = w.rank * send.size(),
             .call = [=, &w](void* s, void* r) { return HcclAllGather(s, r, count, type.type, w.comm, w.stream); }});
  });
}

TEST(ConformanceMove, AllGatherVEqualsMpiAndLeavesTheGapsAlone) {
  const World& w = TheWorld();
  ForEachTypeAndCount([&](const TypeInfo& type, size_t base, const std::string& what) {
    Layout layout;
    for (uint32_t rank = 0; rank < w.size; ++rank) layout.Add(rank == 1 ? 0 : base / (rank + 1), rank % 3, type.bytes);
    const uint64_t mine = layout.counts[w.rank];
    const Bytes send = Bits(type.type, w.rank, mine);
    Bytes expected = Untouched(layout.end * type.bytes);
    MPI_Allgatherv(send.data(), layout.mpi_counts[w.rank], MPI_BYTE, expected.data(), layout.mpi_counts.data(),
                   layout.mpi_places.data(), MPI_BYTE, MPI_COMM_WORLD);
    RunCase({.name = "all-gather-v" + what, .send = send, .expected = expected, .call = [=, &w](void* s, void* r) {
               return HcclAllGatherV(s, mine, r, layout.counts.data(), layout.places.data(), type.type, w.comm,
                                     w.stream);
             }});
  });
}

TEST(ConformanceMove, AllToAllEqualsMpi) {
  const World& w = TheWorld();
  ForEachTypeAndCount([&](const TypeInfo& type, size_t whole, const std::string& what) {
    const size_t count = whole / w.size;
    const int bytes = static_cast<int>(count * type.bytes);
    const Bytes send = Bits(type.type, w.rank, count * w.size);
    Bytes expected(send.size());
    MPI_Alltoall(send.data(), bytes, MPI_BYTE, expected.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
    RunCase({.name = "all-to-all" + what, .send = send, .expected = expected, .call = [=, &w](void* s, void* r) {
               return HcclAlltoAll(s, count, type.type, r, count, type.type, w.comm, w.stream);
             }});
  });
}

// How much rank `from` sends to rank `to`: uneven, sometimes nothing.
uint64_t Amount(size_t base, uint32_t from, uint32_t to, uint32_t size) {
  return (from + 2 * to) % 4 == 3 ? 0 : base / size + 3 * from + to;
}

TEST(ConformanceMove, AllToAllVEqualsMpiAndLeavesTheGapsAlone) {
  const World& w = TheWorld();
  ForEachTypeAndCount([&](const TypeInfo& type, size_t base, const std::string& what) {
    Layout out, in;
    for (uint32_t peer = 0; peer < w.size; ++peer) {
      out.Add(Amount(base, w.rank, peer, w.size), peer % 2, type.bytes);
      in.Add(Amount(base, peer, w.rank, w.size), (peer + 1) % 3, type.bytes);
    }
    const Bytes send = Bits(type.type, w.rank, out.end);
    Bytes expected = Untouched(in.end * type.bytes);
    MPI_Alltoallv(send.data(), out.mpi_counts.data(), out.mpi_places.data(), MPI_BYTE, expected.data(),
                  in.mpi_counts.data(), in.mpi_places.data(), MPI_BYTE, MPI_COMM_WORLD);
    RunCase({.name = "all-to-all-v" + what, .send = send, .expected = expected, .call = [=, &w](void* s, void* r) {
               return HcclAlltoAllV(s, out.counts.data(), out.places.data(), type.type, r, in.counts.data(),
                                    in.places.data(), type.type, w.comm, w.stream);
             }});
  });
}

// All ranks know the whole matrix (row = sender); the parts are contiguous.
TEST(ConformanceMove, AllToAllVCEqualsMpi) {
  const World& w = TheWorld();
  ForEachTypeAndCount([&](const TypeInfo& type, size_t base, const std::string& what) {
    std::vector<uint64_t> matrix;
    for (uint32_t from = 0; from < w.size; ++from) {
      for (uint32_t to = 0; to < w.size; ++to) matrix.push_back(Amount(base, from, to, w.size));
    }
    Layout out, in;
    for (uint32_t peer = 0; peer < w.size; ++peer) {
      out.Add(matrix[w.rank * w.size + peer], 0, type.bytes);
      in.Add(matrix[peer * w.size + w.rank], 0, type.bytes);
    }
    const Bytes send = Bits(type.type, w.rank, out.end);
    Bytes expected(in.end * type.bytes);
    MPI_Alltoallv(send.data(), out.mpi_counts.data(), out.mpi_places.data(), MPI_BYTE, expected.data(),
                  in.mpi_counts.data(), in.mpi_places.data(), MPI_BYTE, MPI_COMM_WORLD);
    RunCase({.name = "all-to-all-vc" + what, .send = send, .expected = expected, .call = [=, &w](void* s, void* r) {
               return HcclAlltoAllVC(s, matrix.data(), type.type, r, type.type, w.comm, w.stream);
             }});
  });
}

}  // namespace
}  // namespace conformance
