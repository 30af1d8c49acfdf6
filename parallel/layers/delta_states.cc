#include "parallel/layers/delta_states.h"

#include <ATen/ATen.h>

#include <set>
#include <vector>

namespace trireme {
namespace {

std::set<int32_t> FirstBlocksOf(const PagedRows& rows) {
  std::set<int32_t> first(rows.first_blocks.begin(), rows.first_blocks.end());
  for (const PagedRow& row : rows.rows) {
    if (!row.blocks.empty()) first.insert(row.blocks.front());
  }
  return first;
}

}  // namespace

DeltaStates::Rows DeltaStates::Take(const PagedRows& rows, const Rows& blank) {
  // Rows that ended or were preempted; a state is as large as the keys and values of thousands of tokens.
  const std::set<int32_t> first = FirstBlocksOf(rows);
  std::erase_if(by_block_, [&](const auto& known) { return !first.contains(known.first); });
  std::vector<at::Tensor> recent, states;
  for (const PagedRow& row : rows.rows) {
    const Rows& found = row.past == 0 ? blank : by_block_.at(row.blocks.front());
    recent.push_back(found.recent);
    states.push_back(found.states);
  }
  if (recent.empty()) return blank;
  return {.recent = at::cat(recent), .states = at::cat(states)};
}

void DeltaStates::Keep(const PagedRows& rows, const Rows& after) {
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    by_block_[rows.rows[i].blocks.front()] = {.recent = after.recent.narrow(0, row, 1).clone(),
                                              .states = after.states.narrow(0, row, 1).clone()};
  }
}

}  // namespace trireme
