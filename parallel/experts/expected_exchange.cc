#include "parallel/experts/expected_exchange.h"

#include <ATen/ATen.h>

#include <vector>

#include "core/tensor/device_copies.h"

namespace trireme {
namespace {

// Offsets and sizes of the parts of an exchange, on the device: [2, parts].
at::Tensor PartsOnDevice(const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes, at::Device device) {
  return Upload(at::stack({at::tensor(offsets, at::kLong), at::tensor(sizes, at::kLong)}), device);
}

// Sums before each element of the last dim.
at::Tensor Before(const at::Tensor& numbers) { return numbers.cumsum(-1) - numbers; }

// Rows by expert, but those for each ep-th of the experts begin where its room does.
at::Tensor SentPositions(const at::Tensor& chosen, const ByExpert& sorted, std::span<const int64_t> own_rooms,
                         const ExpertLayout& layout) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t room : own_rooms.first(own_rooms.size() - 1)) offsets.push_back(offsets.back() + room);
  const at::Tensor known = PartsOnDevice(offsets, {own_rooms.begin(), own_rooms.end()}, chosen.device());
  const at::Tensor rows = sorted.counts.view({layout.expert, layout.held()}).sum(1);
  const at::Tensor moved = known[0] - Before(rows), limit = known.sum(0);
  const at::Tensor part = at::floor_divide(chosen.clamp_min(0), layout.held()).flatten();
  const at::Tensor positions = sorted.positions + moved.index_select(0, part).view_as(chosen);
  const at::Tensor beyond = positions.ge(limit.index_select(0, part).view_as(chosen));
  return positions.masked_fill(beyond.logical_or(chosen.lt(0)), -1);
}

// Received rows are runs, rank after rank and of a rank expert after expert, and then the room that it left. All rows
// of a run move by the same number: the differences between runs, summed up over the rows.
at::Tensor SpreadMoves(const at::Tensor& begins, const at::Tensor& moves, int64_t rows) {
  const at::Tensor flat = moves.flatten();
  const at::Tensor steps =
      at::cat({flat.narrow(0, 0, 1), flat.narrow(0, 1, flat.numel() - 1) - flat.narrow(0, 0, flat.numel() - 1)});
  const at::Tensor sums =
      at::zeros({rows + 1}, flat.options().dtype(at::kInt)).scatter_add_(0, begins.flatten(), steps.to(at::kInt));
  return sums.to(at::kLong).cumsum(0).narrow(0, 0, rows);
}

struct SortedRows {
  at::Tensor regrouped, ends;
};

SortedRows SortArriving(const at::Tensor& counts, const ExchangePlan& plan, const ExpertLayout& layout) {
  const at::Tensor known = PartsOnDevice({plan.received.offsets.begin(), plan.received.offsets.end()},
                                         {plan.received.counts.begin(), plan.received.counts.end()}, counts.device());
  const at::Tensor offsets = known[0].unsqueeze(1), rooms = known[1].unsqueeze(1);  // [ranks, 1]
  // A rank's rows end where its room does.
  const at::Tensor ends = at::minimum(counts.narrow(1, layout.first(), layout.held()).cumsum(1), rooms);
  const at::Tensor before = at::cat({at::zeros_like(offsets), ends.narrow(1, 0, layout.held() - 1)}, 1);
  const at::Tensor rows = ends - before;  // [ranks, held]
  const at::Tensor by_expert = rows.t().contiguous();
  const at::Tensor targets = Before(by_expert.flatten()).view_as(by_expert).t();
  const at::Tensor nowhere = at::full_like(offsets, -plan.received_rows);  // less than any position
  const at::Tensor begins = offsets + at::cat({before, ends.narrow(1, layout.held() - 1, 1)}, 1);
  const at::Tensor moves = at::cat({targets - offsets - before, nowhere}, 1);
  const at::Tensor positions =
      at::arange(plan.received_rows, counts.options()) + SpreadMoves(begins, moves, plan.received_rows);
  return {positions.masked_fill(positions.lt(0), -1).unsqueeze(1), by_expert.sum(1).cumsum(0)};
}

}  // namespace

at::Tensor RowsByPart(const at::Tensor& counts, const ExpertLayout& layout) {
  return counts.reshape({layout.ranks(), layout.expert, layout.held()}).sum(2);
}

ExpectedExchange PlanExpected(const at::Tensor& chosen, const ByExpert& sorted, const at::Tensor& counts,
                              std::span<const int64_t> rooms, const ExpertLayout& layout) {
  ExpectedExchange exchange{.plan = PlanRooms(rooms, layout)};
  const auto own = rooms.subspan(static_cast<size_t>(layout.rank * layout.expert), static_cast<size_t>(layout.expert));
  exchange.positions = SentPositions(chosen, sorted, own, layout);
  const SortedRows sorted_rows = SortArriving(counts, exchange.plan, layout);
  exchange.regrouped = sorted_rows.regrouped;
  exchange.ends = sorted_rows.ends;
  return exchange;
}

}  // namespace trireme
