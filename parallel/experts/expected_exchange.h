// Which row goes where in an exchange whose sizes the host knew before (expected_rows.h), computed on the device from
// what routers chose: rows beyond the room of their ranks are left out, and room beyond the rows stays empty. Where all
// rows fit, each expert gets the same rows in the same order as with exact sizes (dispatch_plan.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "parallel/experts/dispatch_plan.h"
#include "parallel/experts/sort_by_expert.h"

namespace trireme {

struct ExpectedExchange {
  ExchangePlan plan;     // of the rooms
  at::Tensor positions;  // [tokens, k] of this rank's choices among the rows it sends; -1: not dispatched, or no room
  at::Tensor regrouped;  // [received rows, 1] positions among this rank's rows by expert; -1: nothing arrived there
  at::Tensor ends;       // [held] where each expert's rows end
};

// chosen: [tokens, k]; counts: [ranks, experts] of all ranks' choices; rooms: [ranks, ep].
ExpectedExchange PlanExpected(const at::Tensor& chosen, const ByExpert& sorted, const at::Tensor& counts,
                              std::span<const int64_t> rooms, const ExpertLayout& layout);

// Rows that each rank sends to the ranks of each ep-th of the experts: [ranks, ep].
at::Tensor RowsByPart(const at::Tensor& counts, const ExpertLayout& layout);

}  // namespace trireme
