#include "parallel/layers/delta_states.h"

#include <ATen/ATen.h>

#include <set>
#include <vector>

namespace trireme {
namespace {

// Blocks that are another row's first one no more.
std::set<int32_t> LaterBlocks(const PagedRows& rows) {
  std::set<int32_t> later;
  for (const PagedRow& row : rows.rows) {
    if (!row.blocks.empty()) later.insert(row.blocks.begin() + 1, row.blocks.end());
  }
  return later;
}

}  // namespace

DeltaStates::Rows DeltaStates::Take(const PagedRows& rows, const Rows& blank) {
  // Rows that ended say nothing: they are forgotten when their block has another use, and looked for when many wait.
  if (by_block_.size() > 2 * rows.rows.size() + 8) {
    const std::set<int32_t> later = LaterBlocks(rows);
    std::erase_if(by_block_, [&](const auto& known) { return later.contains(known.first); });
  }
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
