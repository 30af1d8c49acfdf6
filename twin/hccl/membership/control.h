// Small control messages between the members of a communicator: over a control connection, or directly into
// the other group if both are in one process.
#pragma once

#include <cstdint>

#include "twin/hccl/membership/group.h"
#include "twin/hccl/wire/frame.h"

namespace twin {

// Throws if the member cannot be reached.
void SendControl(Group& group, uint32_t to, const Frame& frame);

// Handles a message at its receiver.
void HandleControl(Group& group, uint32_t from, Frame frame);

// Says goodbye to all members and stops listening to them.
void Leave(Group& group);

}  // namespace twin
