// Schedule: the whole work of a pipeline for one optimizer step, as one list of steps a rank. A value that
// prints; who makes it is in schedules.h, who proves it in verify.h.
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
  int virtual_stages = 1;  // chunks a rank, where the schedule leaves a choice
};

// What a schedule's own function gives: the order of compute, and nothing else.
struct ComputeOrder {
  StagePlacement placement;
  int micro_batches = 1;
  std::vector<std::vector<Action>> ranks;
};

// One compute or parameter action alone, or a batch: messages that are posted together and, under the
// strictest rule, all ended before the next step begins. A batch holds at most one message a peer and
// direction, for point-to-point calls have no tags: their order is all that tells two messages of a pair
// apart.
using Step = std::vector<Action>;

struct Schedule {
  std::string name;
  StagePlacement placement;
  int micro_batches = 1;
  std::optional<int> zero;    // whose parameter actions the table holds; none: not inserted
  bool forward_only = false;  // an evaluation: nothing is differentiated
  std::vector<std::vector<Step>> ranks;

  // One line a rank: "rank 0: F0.0 {send F0.0 to 1} …".
  std::string ToText() const;
};

std::string StepText(const Step& step);

}  // namespace trireme
