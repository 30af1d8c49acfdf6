// Simulator: when every action of a table would run, given how long each kind takes; bubbles and live
// activations follow. Needs a verified table; knows no device and no real clock.
#pragma once

#include <string>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace trireme {

// For one micro batch on one chunk, in any unit. A full backward takes the time of both gradients. Actions on
// parameters and gradients take none.
struct Durations {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double message = 0;
};

struct TimedAction {
  Action action;
  double start = 0;
  double end = 0;
};

struct RankTimeline {
  std::vector<TimedAction> compute;   // in order
  std::vector<TimedAction> messages;  // sends and receives, by their step
  double bubble_fraction = 0;         // fraction of the time in which this rank computes nothing
  int peak_live = 0;  // most live chunk activations at once: a micro batch counts on each chunk from its
                      // forward to its weight gradient
};

struct Timeline {
  std::string title;  // "1f1b, 4 ranks, 8 micro batches"
  int chunks = 1;
  double end = 0;  // of the last compute of all ranks
  std::vector<RankTimeline> ranks;
};

// A rank has two queues, like an executor with two streams: compute, and batches of messages, each in the
// table's order. A batch is posted when the batch before it has completed and what it sends is computed; a
// message runs once both its ends are posted; a batch completes with its last message. Compute waits only for
// the batch that brings its input.
Timeline Simulate(const Schedule& schedule, const Durations& durations);

// The same where stages differ: one entry per stage, whose message is what brings its inputs and gradients to it.
Timeline SimulateStages(const Schedule& schedule, const std::vector<Durations>& of_stage);

}  // namespace trireme
