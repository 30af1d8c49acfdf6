// How units of remote training fail: the same on every rank, and as the outcome of the unit alone. What is a unit's
// fault and what ends the job is decided here, nothing else.
#pragma once

#include <string>

#include "core/base/error.h"
#include "core/comm/job.h"
#include "train/remote/train_work.h"

namespace trireme {

// Runs the call on every rank; throws the same on every rank if it throws on any. Collective.
template <typename Call>
void AgreeOn(Job& job, const Call& call) {
  std::string failure;
  try {
    call();
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "failed";
  }
  for (const std::string& other : job.GatherStrings(failure)) {
    if (!other.empty()) throw InputError(other);
  }
}

// Runs the call; an input error is the outcome's. Another one, of a device or a peer, ends the job.
template <typename Call>
void GuardInto(TrainOutcome& outcome, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    outcome.error = error.what();
    outcome.users_fault = true;
  }
}

}  // namespace trireme
