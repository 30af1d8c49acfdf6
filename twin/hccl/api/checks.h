// HCCL's restrictions on arguments, checked when a call is made. Each check throws HcclFailure with what was
// passed and what is allowed. What only all ranks together can know is compared when they meet.
#pragma once

#include "twin/hccl/data_path/operation.h"
#include "twin/hccl/membership/group.h"

namespace twin {

void CheckMovedType(HcclDataType type);                          // gathers, scatters, messages
void CheckReduction(HcclDataType type, HcclReduceOp reduction);  // reductions
void CheckNoProduct(HcclReduceOp reduction);                     // reduce-scatters with a count per rank
// All-to-alls: both sides are described and must match.
void CheckSameTypes(HcclDataType send, HcclDataType recv);
void CheckSameCounts(uint64_t send, uint64_t recv);
void CheckBuffersDiffer(const Operation& operation);
// V forms: what this rank sends to itself must equal what it expects from itself.
void CheckOwnBlock(const Operation& operation, uint32_t rank);
void CheckRoot(const Group& group, uint32_t root);
void CheckStream(const Group& group, aclrtStream stream);
// Buffers that this rank uses must not be null.
void CheckBuffers(const Group& group, const Operation& operation);
// Send and receive buffers that may not be the same, or may not overlap.
void CheckOverlap(const Group& group, const Operation& operation);
// At most one message per peer and direction, none to oneself, valid types and peers.
void CheckMessages(const Group& group, const Operation& operation);

}  // namespace twin
