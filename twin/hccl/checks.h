// What a call may ask for: HCCL's restrictions, checked when the call is made. Each throws HcclFailure saying
// what was passed and what is allowed. What only all members together can know is compared when they meet.
#pragma once

#include "twin/hccl/group.h"
#include "twin/hccl/operation.h"

namespace twin {

void CheckMovedType(HcclDataType type);                          // gathers, scatters, messages
void CheckReduction(HcclDataType type, HcclReduceOp reduction);  // reductions
void CheckNoProduct(HcclReduceOp reduction);                     // reduce-scatters with a count for each rank
// All-to-alls: both sides are described, and must be described alike.
void CheckSameTypes(HcclDataType send, HcclDataType recv);
void CheckSameCounts(uint64_t send, uint64_t recv);
void CheckBuffersDiffer(const Operation& operation);
// V forms: what this rank sends to itself and what it expects of itself.
void CheckOwnBlock(const Operation& operation, uint32_t rank);
void CheckRoot(const Group& group, uint32_t root);
void CheckStream(const Group& group, aclrtStream stream);
// Buffers that this rank uses must be given.
void CheckBuffers(const Group& group, const Operation& operation);
// Sender and receiver parts that may not be the same, or may not lie over each other.
void CheckOverlap(const Group& group, const Operation& operation);
// At most one message for each peer and direction, none to oneself, known types and peers.
void CheckMessages(const Group& group, const Operation& operation);

}  // namespace twin
