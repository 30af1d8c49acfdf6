// InsertMessages: from a compute order to a table with its messages, batched so that no rendezvous can hang.
#pragma once

#include <string>

#include "parallel/schedule/schedule.h"

namespace trireme {

// Refuses an order in which ranks deadlock on each other's compute.
Schedule InsertMessages(const std::string& name, const ComputeOrder& order);

}  // namespace trireme
