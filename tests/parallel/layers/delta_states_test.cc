// States of rows in generation: each row finds its own again, whichever rows a step has, and those of rows that ended
// or were preempted take no memory.
#include "parallel/layers/delta_states.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

const DeltaStates::Rows kBlank{.recent = at::zeros({1, 3, 2}), .states = at::zeros({1, 2, 2, 2})};

// A step: rows by their first block, of which all but those that begin have cached tokens.
PagedRows Step(const std::vector<int32_t>& blocks, const std::vector<int32_t>& all, bool begins) {
  PagedRows rows{.block_size = 4, .blocks = 9, .rows = {}, .first_blocks = all};
  for (const int32_t block : blocks) rows.rows.push_back({.past = begins ? 0 : 4, .fresh = 1, .blocks = {block, 8}});
  return rows;
}

// Adds the block's number to the state of each row.
void RunStep(DeltaStates& states, const PagedRows& step) {
  DeltaStates::Rows rows = states.Take(step, kBlank);
  for (size_t i = 0; i < step.rows.size(); ++i) {
    rows.states[static_cast<int64_t>(i)].add_(step.rows[i].blocks.front());
  }
  states.Keep(step, rows);
}

float StateOf(DeltaStates& states, const PagedRows& step) {
  return states.Take(step, kBlank).states.flatten()[0].item<float>();
}

TEST(DeltaStates, OfRowsThatWaitAreKept) {
  DeltaStates states;
  RunStep(states, Step({3, 5}, {3, 5}, /*begins=*/true));
  for (int i = 0; i < 3; ++i) RunStep(states, Step({5}, {3, 5}, /*begins=*/false));
  EXPECT_EQ(StateOf(states, Step({3}, {3, 5}, false)), 3);
  EXPECT_EQ(StateOf(states, Step({5}, {3, 5}, false)), 20);
}

TEST(DeltaStates, OfRowsThatEndedAreForgotten) {
  DeltaStates states;
  for (int32_t block = 0; block < 8; ++block) {
    RunStep(states, Step({block}, {block}, /*begins=*/true));
    EXPECT_EQ(states.size(), 1u);
  }
}

TEST(DeltaStates, BeginAnewInABlockThatAnotherRowHad) {
  DeltaStates states;
  RunStep(states, Step({3}, {3}, /*begins=*/true));
  RunStep(states, Step({3}, {3}, /*begins=*/true));
  EXPECT_EQ(StateOf(states, Step({3}, {3}, false)), 3);
}

}  // namespace
}  // namespace trireme
