// The schedules by name: from a pipeline's shape to a verified table. Where a user's choice enters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace trireme {

// "1f1b", "interleaved", "zero_bubble", "dualpipev".
std::vector<std::string> ScheduleNames();
// What each is, in a line, in the same order.
std::vector<std::string> ScheduleMeanings();

// Only the compute order. Refuses an unknown name, and sizes that the schedule does not have.
ComputeOrder MakeComputeOrder(std::string_view name, const PipelineShape& shape);

// The whole table: compute, messages, and the parameter actions of a zero level (0 to 3). Verified: a table
// that FindFault refuses is never handed out.
Schedule MakeSchedule(std::string_view name, const PipelineShape& shape, int zero);

// The table of an evaluation, for stages placed as a schedule placed them: forward passes only. Verified,
// too.
Schedule MakeForwardSchedule(const StagePlacement& placement, int micro_batches, int zero);

}  // namespace trireme
