// Small messages between the members of a communicator, beside its data: over a control connection, or
// straight into the other group where both are in one process.
#pragma once

#include <cstdint>

#include "twin/hccl/frame.h"
#include "twin/hccl/group.h"

namespace twin {

// Throws where the member cannot be reached.
void SendControl(Group& group, uint32_t to, const Frame& frame);

// What a message does at its receiver.
void HandleControl(Group& group, uint32_t from, Frame frame);

// Says goodbye to all members and stops listening to them.
void Leave(Group& group);

}  // namespace twin
