// All-reduce, reduce, reduce-scatter and reduce-scatter-v: every type and reduction, every size, in every
// kind of memory, against MPI's own collective; the 16-bit floats against an fp64 reduction rounded once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/twin/hccl/conformance_matrix.h"

namespace conformance {
namespace {

bool IsHalf(HcclDataType type) { return type == HCCL_DATA_TYPE_FP16 || type == HCCL_DATA_TYPE_BFP16; }

MPI_Datatype MpiType(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return MPI_INT8_T;
    case HCCL_DATA_TYPE_INT16:
      return MPI_INT16_T;
    case HCCL_DATA_TYPE_INT32:
      return MPI_INT32_T;
    case HCCL_DATA_TYPE_INT64:
      return MPI_INT64_T;
    default:
      return MPI_FLOAT;
  }
}

MPI_Op MpiOp(HcclReduceOp op) {
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
  return ops[op];
}

// What MPI reduces: the numbers themselves or, for the 16-bit floats that MPI lacks, their fp64 values.
struct MpiData {
  Bytes bytes;
  MPI_Datatype type;
};

MpiData ToMpi(HcclDataType type, const Bytes& numbers) {
  if (!IsHalf(type)) return {numbers, MpiType(type)};
  MpiData wide{Bytes(numbers.size() * 4), MPI_DOUBLE};
  for (size_t i = 0; i < numbers.size() / 2; ++i) {
    uint16_t code;
    std::memcpy(&code, &numbers[2 * i], 2);
    const double value = DecodeHalf(code, FractionBits(type));
    std::memcpy(&wide.bytes[8 * i], &value, 8);
  }
  return wide;
}

// Converts back: the 16-bit floats are rounded here, once.
Bytes FromMpi(HcclDataType type, const Bytes& wide) {
  if (!IsHalf(type)) return wide;
  Bytes numbers(wide.size() / 4);
  for (size_t i = 0; i < numbers.size() / 2; ++i) {
    double value;
    std::memcpy(&value, &wide[8 * i], 8);
    const uint16_t code = EncodeHalf(value, FractionBits(type));
    std::memcpy(&numbers[2 * i], &code, 2);
  }
  return numbers;
}

// Bytes that `count` numbers of this type take on MPI's side.
size_t MpiBytes(HcclDataType type, size_t count) { return count * (IsHalf(type) ? 8 : Info(type).bytes); }

Bytes Slice(const Bytes& bytes, size_t first, size_t size) {
  return Bytes(bytes.begin() + first, bytes.begin() + first + size);
}

// Calls `body` for each (type, reduction) pair that an Atlas A2 supports.
void ForEachReduction(const std::function<void(HcclDataType, HcclReduceOp, const std::string&)>& body) {
  for (const TypeInfo& type : AllTypes()) {
    for (const HcclReduceOp op : kAllOps) {
      if (Reducible(type.type, op)) body(type.type, op, std::string(" ") + OpName(op) + " of " + type.name + " x ");
    }
  }
}

Bytes AllReduced(HcclDataType type, HcclReduceOp op, size_t count, const Bytes& send) {
  const MpiData data = ToMpi(type, send);
  Bytes result(data.bytes.size());
  MPI_Allreduce(data.bytes.data(), result.data(), static_cast<int>(count), data.type, MpiOp(op), MPI_COMM_WORLD);
  return FromMpi(type, result);
}

TEST(ConformanceReduce, AllReduceEqualsMpi) {
  const World& w = TheWorld();
  ForEachReduction([&](HcclDataType type, HcclReduceOp op, const std::string& pair) {
    for (const size_t count : kCounts) {
      const Bytes send = Fill(type, op, Data::kExact, w.rank, count);
      RunCase({.name = "all-reduce" + pair + std::to_string(count),
               .send = send,
               .expected = AllReduced(type, op, count, send),
               .in_place = InPlace::kSame,
               .call = [=, &w](void* s, void* r) { return HcclAllReduce(s, r, count, type, op, w.comm, w.stream); }});
    }
  });
}

TEST(ConformanceReduce, ReduceEqualsMpiOnTheRootAndTouchesNothingElse) {
  const World& w = TheWorld();
  uint32_t root = 0;
  ForEachReduction([&](HcclDataType type, HcclReduceOp op, const std::string& pair) {
    for (const size_t count : kCounts) {
      root = (root + 1) % w.size;
      const Bytes send = Fill(type, op, Data::kExact, w.rank, count);
      const MpiData data = ToMpi(type, send);
      Bytes reduced(data.bytes.size());
      MPI_Reduce(data.bytes.data(), reduced.data(), static_cast<int>(count), data.type, MpiOp(op),
                 static_cast<int>(root), MPI_COMM_WORLD);
      const Bytes expected = w.rank == root ? FromMpi(type, reduced) : Untouched(send.size());
      RunCase(
          {.name = "reduce" + pair + std::to_string(count) + " to " + std::to_string(root),
           .send = send,
           .expected = expected,
           .in_place = InPlace::kSame,
           .in_place_result = w.rank == root,
           .call = [=, &w](void* s, void* r) { return HcclReduce(s, r, count, type, op, root, w.comm, w.stream); }});
    }
  });
}

TEST(ConformanceReduce, ReduceScatterEqualsMpi) {
  const World& w = TheWorld();
  ForEachReduction([&](HcclDataType type, HcclReduceOp op, const std::string& pair) {
    for (const size_t count : kCounts) {
      if (count > 10000 && w.size > 4) continue;  // the buffer is `size` times that; see LargeSums
      const size_t bytes = count * Info(type).bytes;
      const Bytes send = Fill(type, op, Data::kExact, w.rank, count * w.size);
      const MpiData data = ToMpi(type, send);
      Bytes part(MpiBytes(type, count));
      MPI_Reduce_scatter_block(data.bytes.data(), part.data(), static_cast<int>(count), data.type, MpiOp(op),
                               MPI_COMM_WORLD);
      RunCase(
          {.name = "reduce-scatter" + pair + std::to_string(count),
           .send = send,
           .expected = FromMpi(type, part),
           .in_place = InPlace::kReceiveInsideSend,
           .in_place_offset = w.rank * bytes,
           .call = [=, &w](void* s, void* r) { return HcclReduceScatter(s, r, count, type, op, w.comm, w.stream); }});
    }
  });
}

// Uneven parts with a gap after each; one rank gets nothing.
TEST(ConformanceReduce, ReduceScatterVEqualsMpi) {
  const World& w = TheWorld();
  ForEachReduction([&](HcclDataType type, HcclReduceOp op, const std::string& pair) {
    if (op == HCCL_REDUCE_PROD) return;  // the call does not support it
    for (const size_t base : {size_t{0}, size_t{1}, size_t{1000}, size_t{5003}}) {
      const size_t width = Info(type).bytes;
      std::vector<uint64_t> counts(w.size), places(w.size);
      std::vector<int> mpi_counts(w.size);
      uint64_t end = 0;
      for (uint32_t rank = 0; rank < w.size; ++rank) {
        counts[rank] = rank == 1 ? 0 : base + 5 * rank;
        places[rank] = end + rank;
        end = places[rank] + counts[rank];
        mpi_counts[rank] = static_cast<int>(counts[rank]);
      }
      const Bytes send = Fill(type, op, Data::kExact, w.rank, end);
      Bytes packed;
      for (uint32_t rank = 0; rank < w.size; ++rank) {
        const Bytes part = Slice(send, places[rank] * width, counts[rank] * width);
        packed.insert(packed.end(), part.begin(), part.end());
      }
      const uint64_t mine = counts[w.rank];
      const MpiData data = ToMpi(type, packed);
      Bytes part(MpiBytes(type, mine));
      MPI_Reduce_scatter(data.bytes.data(), part.data(), mpi_counts.data(), data.type, MpiOp(op), MPI_COMM_WORLD);
      RunCase({.name = "reduce-scatter-v" + pair + std::to_string(base),
               .send = send,
               .expected = FromMpi(type, part),
               .call = [=, &w](void* s, void* r) {
                 return HcclReduceScatterV(s, counts.data(), places.data(), r, mine, type, op, w.comm, w.stream);
               }});
    }
  });
}

// One size larger than any chunk buffer, for the types that training reduces.
TEST(ConformanceReduce, LargeSumsEqualMpi) {
  const World& w = TheWorld();
  constexpr size_t count = 500009;
  for (const HcclDataType type : {HCCL_DATA_TYPE_FP32, HCCL_DATA_TYPE_BFP16}) {
    const Bytes send = Fill(type, HCCL_REDUCE_SUM, Data::kExact, w.rank, count);
    const Bytes whole = AllReduced(type, HCCL_REDUCE_SUM, count, send);
    RunCase({.name = std::string("large all-reduce of ") + Info(type).name,
             .send = send,
             .expected = whole,
             .in_place = InPlace::kSame,
             .call = [=, &w](void* s, void* r) {
               return HcclAllReduce(s, r, count, type, HCCL_REDUCE_SUM, w.comm, w.stream);
             }});
    const size_t part = count / w.size;
    const size_t bytes = part * Info(type).bytes;
    RunCase({.name = std::string("large reduce-scatter of ") + Info(type).name,
             .send = Slice(send, 0, bytes * w.size),
             .expected = Slice(whole, w.rank * bytes, bytes),
             .in_place = InPlace::kReceiveInsideSend,
             .in_place_offset = w.rank * bytes,
             .call = [=, &w](void* s, void* r) {
               return HcclReduceScatter(s, r, part, type, HCCL_REDUCE_SUM, w.comm, w.stream);
             }});
  }
}

}  // namespace
}  // namespace conformance
