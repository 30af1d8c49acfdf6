// The schedules by name: from a pipeline's shape to a verified table. Takes the user's choice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace trireme {

// "1f1b", "interleaved", "zero_bubble", "dualpipev".
std::vector<std::string> ScheduleNames();
// A one-line description of each, in the same order.
std::vector<std::string> ScheduleMeanings();

// Only the compute order. Refuses an unknown name, and sizes that the schedule does not support.
ComputeOrder MakeComputeOrder(std::string_view name, const PipelineShape& shape);

// The full table: compute, messages, and the parameter actions of a ZeRO stage (0 to 3). Verified: a table in
// which FindFault finds a fault is never returned.
Schedule MakeSchedule(std::string_view name, const PipelineShape& shape, int zero);

// The table of an evaluation, for stages placed by a schedule: forward passes only. Also verified.
Schedule MakeForwardSchedule(const StagePlacement& placement, int micro_batches, int zero);

}  // namespace trireme
