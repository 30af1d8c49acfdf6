// Sends tokens to the ranks of their experts and back, each direction beside its adjoint: dispatch copies a
// token to all its experts, combine sums their outputs, and the gradient of one is the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "parallel/experts/dispatch_plan.h"
#include "parallel/experts/expected_rows.h"
#include "parallel/experts/router_losses.h"
#include "parallel/experts/sort_by_expert.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

struct ExpertParallel {
  Communicator& group;  // etp-ep
  int expert = 1;
  int expert_tensor = 1;
  RouterGroups routers = {};
};

struct DispatchOptions {
  // The most rows per expert that each rank's micro batch sends; if > 0, experts are padded to what the group's micro
  // batches may send.
  int64_t capacity = 0;
  bool all_gather = false;
  // Of the layer: takes the numbers of rows and, once it expects some, has the sizes of the exchange; nullptr: they are
  // exact. Not with all_gather or a capacity.
  ExpectedRows* expected = nullptr;
};

// Rows in transit.
struct Flight {
  Pending pending;
  at::Tensor arriving;
  at::ScalarType type = at::kFloat;  // dtype of the rows

  void Land();
};

// The token exchange of one micro batch in one layer, for forward and backward.
class Dispatch {
 public:
  // Collective over the group. chosen: [tokens, k] int64; -1 is not dispatched. Tokens travel to the ranks of
  // their experts or, with `all_gather`, to the whole group, where each rank takes those its experts need.
  Dispatch(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel,
           const DispatchOptions& options = {});

  // x: [tokens, size]; returns the rows of this rank's experts: [rows, size]. `meanwhile` is called during
  // the transfer; its backward pass runs during the transfer of the gradients.
  static at::Tensor ToExperts(const std::shared_ptr<const Dispatch>& way, const at::Tensor& x,
                              const std::function<void()>& meanwhile = {});
  // weights: [tokens, k]; returns one per row.
  static at::Tensor WeightsToExperts(const std::shared_ptr<const Dispatch>& way, const at::Tensor& weights);
  // rows: [rows, size], a partial sum over etp; returns [tokens, size].
  static at::Tensor FromExperts(const std::shared_ptr<const Dispatch>& way, const at::Tensor& rows,
                                const std::function<void()>& meanwhile = {});

  const GroupEnds& ends() const { return ends_; }  // where each expert's rows end
  // Number of this rank's choices per expert: [experts] int64, on the device of `chosen`.
  const at::Tensor& counts() const { return counts_; }
  // [1] int64 there: rows of this rank's experts, without padding.
  const at::Tensor& received() const { return received_; }
  const at::Tensor& positions() const { return positions_; }

  // Without autograd, each in two parts. places: [tokens, k] or [tokens · k, 1], positions among the rows in
  // send order.
  Flight StartSpread(const at::Tensor& x, const at::Tensor& positions) const;
  at::Tensor FinishSpread(Flight& flight, const at::Tensor& positions) const;
  Flight StartCollect(const at::Tensor& rows, const at::Tensor& positions) const;
  at::Tensor FinishCollect(Flight& flight, const at::Tensor& positions) const;

 private:
  void PlanOnDevice(const at::Tensor& chosen, int64_t experts);
  void PlanExchangeOf(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel,
                      const DispatchOptions& options);
  void PlanExpectedOf(const at::Tensor& chosen, const ByExpert& sorted, const at::Tensor& all,
                      const ExpertLayout& layout, const ExpectedRows& expected);
  void PlanGather(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel, int64_t capacity);
  Flight StartExchange(const at::Tensor& rows, const Parts& sent, const Parts& received, int64_t result_rows) const;
  // Whether some rows of this rank's experts are padding: of experts, or room for more rows than there are.
  bool has_gaps() const { return plan_.held_rows > plan_.received_rows || !ends_->on_host(); }
  // Whether rows are already in expert order when they arrive.
  bool in_order() const { return group_.size() == 1 && plan_.held_rows == plan_.received_rows; }

  Communicator& group_;
  const bool gathers_;
  const int copies_;  // etp
  const int64_t tokens_;
  at::Tensor positions_;
  at::Tensor regrouped_;  // [received rows, 1]
  at::Tensor counts_, received_;
  ExchangePlan plan_;
  GroupEnds ends_;
};

}  // namespace trireme
