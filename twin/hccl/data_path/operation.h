// One HCCL call as data: what was requested, with every array copied, and which bytes it moves between which
// ranks. Knows nothing of how they are moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hccl/hccl.h"

namespace twin {

enum class OperationKind : uint32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kAllGatherV,
  kReduceScatter,
  kReduceScatterV,
  kScatter,
  kAllToAll,
  kAllToAllV,
  kAllToAllVC,
  kBarrier,
  kSend,
  kReceive,
  kBatch,
};

// One message of a send, a receive or a batch. `sequence` counts the messages of this pair and direction,
// from 1.
struct Message {
  bool is_send = false;
  uint32_t peer = 0;
  void* buffer = nullptr;
  uint64_t count = 0;
  HcclDataType type = HCCL_DATA_TYPE_INT8;
  uint64_t sequence = 0;
};

// Counts and offsets are in elements, as in the calls. The arrays are filled only for calls that have them.
struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  uint64_t sequence = 0;  // counts the collectives of the group, from 1; the same on all members
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t count = 0;  // as in the call: per block for gathers and scatters, this rank's for V forms
  HcclDataType type = HCCL_DATA_TYPE_INT8;
  HcclReduceOp reduction = HCCL_REDUCE_SUM;
  uint32_t root = 0;
  std::vector<uint64_t> send_counts, send_offsets, recv_counts, recv_offsets;  // [ranks]
  std::vector<Message> messages;
};

// A range of bytes in a send or a receive buffer.
struct Block {
  size_t offset = 0;
  size_t bytes = 0;
};

const char* CallName(OperationKind kind);
const char* TypeName(HcclDataType type);
const char* ReductionName(HcclReduceOp op);
size_t TypeBytes(HcclDataType type);

bool IsPointToPoint(OperationKind kind);
bool IsReduction(OperationKind kind);  // combines values
bool IsRooted(OperationKind kind);

// "HcclAllReduce #12 of group 'tp0'"
std::string DescribeOperation(const Operation& operation, const std::string& group);

// What `from` sends to `to` in an operation that moves blocks unchanged (or, in a reduce-scatter, to its
// reducer).
Block SendBlock(const Operation& operation, uint32_t from, uint32_t to);
// Where `to` stores what it receives from `from`.
Block RecvBlock(const Operation& operation, uint32_t from, uint32_t to);

// The extent of the send and of the receive buffer of `rank`: 0 if the call does not use it on that rank.
size_t SendExtent(const Operation& operation, uint32_t rank, uint32_t ranks);
size_t RecvExtent(const Operation& operation, uint32_t rank, uint32_t ranks);

// The part of `count` elements that `rank` reduces for all: contiguous, in whole cache lines.
struct Slice {
  uint64_t start = 0;
  uint64_t count = 0;
};
Slice SliceOf(uint64_t count, uint32_t rank, uint32_t ranks);

}  // namespace twin
