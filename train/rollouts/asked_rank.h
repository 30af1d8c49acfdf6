// What one rank asks the world outside for, and all ranks get: rank 0 asks, and its answer or its failure reaches the
// others. No torch.
#pragma once

#include <functional>
#include <string>

#include "core/comm/job.h"

namespace trireme {

// The text that `ask` returns on rank 0, on every rank. If it throws an Error, every rank throws a SamplerError: rank 0
// the same, the others as its peers. Collective.
std::string AskOnRankZero(Job& job, const std::function<std::string()>& ask);

}  // namespace trireme
