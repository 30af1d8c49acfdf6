// Schedule: all the work of a pipeline for one optimizer step, as one list of steps per rank. A value that
// can be printed; schedules.h makes it, verify.h proves it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/schedule/actions.h"
#include "parallel/schedule/placement.h"

namespace trireme {

struct PipelineShape {
  int ranks = 1;
  int micro_batches = 1;
  int virtual_stages = 1;  // chunks per rank, if the schedule leaves a choice
};

// The result of a schedule's own function: the order of compute, and nothing else.
struct ComputeOrder {
  StagePlacement placement;
  int micro_batches = 1;
  std::vector<std::vector<Action>> ranks;
};

// A single compute or parameter action, or a batch: messages that are posted together and, under the
// strictest rule, all complete before the next step begins. A batch holds at most one message per peer and
// direction: point-to-point calls have no tags, so only their order tells two messages of a pair apart.
using Step = std::vector<Action>;

struct Schedule {
  std::string name;
  StagePlacement placement;
  int micro_batches = 1;
  std::optional<int> zero;    // ZeRO stage of the table's parameter actions; nullopt: not inserted
  bool forward_only = false;  // evaluation: nothing is differentiated
  std::vector<std::vector<Step>> ranks;

  // One line per rank: "rank 0: F0.0 {send F0.0 to 1} …".
  std::string ToText() const;
};

std::string StepText(const Step& step);

}  // namespace trireme
