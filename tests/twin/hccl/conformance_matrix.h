// What the matrix tests share: the world under mpirun with its HCCL communicator, the data of a case as a
// function of rank and index, and the one loop that runs a collective in every kind of memory, in place and
// not, and compares.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>

#include "tests/twin/hccl/conformance_api.h"
#include "tests/twin/hccl/conformance_buffer.h"
#include "tests/twin/hccl/conformance_types.h"

namespace conformance {

struct World {
  uint32_t rank = 0;
  uint32_t size = 1;
  HcclComm comm = nullptr;
  aclrtStream stream = nullptr;
};
World& TheWorld();
void StartWorld();
void StopWorld();

// A call that fails on one rank leaves the others waiting, so it aborts the whole job with its message.
void Need(HcclResult code, const std::string& what);
void NeedAcl(aclError code, const std::string& what);

// Around every power of two that a chunk size could be, and small odd sizes.
inline constexpr size_t kCounts[] = {0, 1, 3, 17, 1000, 4099, 65537};

enum class Data {
  kBits,    // any bit pattern: only for collectives that move data
  kExact,   // numbers whose reduction is exact in fp32, yet needs rounding in 16 bits
  kRandom,  // arbitrary floats
};
Bytes Fill(HcclDataType type, HcclReduceOp op, Data data, uint32_t rank, size_t count);
inline Bytes Bits(HcclDataType type, uint32_t rank, size_t count) {
  return Fill(type, HCCL_REDUCE_SUM, Data::kBits, rank, count);
}

// How the send and receive buffers may overlap.
enum class InPlace { kNever, kSame, kSendInsideReceive, kReceiveInsideSend };

struct Case {
  std::string name;
  Bytes send;
  Bytes expected;  // all of the receive buffer; Untouched() if nothing may be written
  InPlace in_place = InPlace::kNever;
  size_t in_place_offset = 0;   // of the inner buffer in the outer, in bytes
  bool in_place_result = true;  // false: in place, this rank's buffer is unspecified afterwards
  std::function<HcclResult(void* send, void* receive)> call;
};

Bytes Untouched(size_t bytes);

// Runs the case in device memory, in host memory and in a mix of both, out of place and, where legal, in place.
void RunCase(const Case& c);

}  // namespace conformance
