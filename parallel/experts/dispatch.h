// Tokens to the ranks of their experts and back, each way beside its adjoint: dispatch copies a token to all
// its experts, combine sums what stands there, and the gradient of one is the other. No token is dropped.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/comm/communicator.h"
#include "ops/grouped_linear.h"
#include "parallel/experts/dispatch_plan.h"

namespace trireme {

struct ExpertParallel {
  Communicator& group;  // etp-ep
  int expert = 1;
  int expert_tensor = 1;
};

// The way of one micro batch through one layer, for forward and backward.
class Dispatch {
 public:
  // Collective over the group. chosen: [tokens, k] int64, -1: goes nowhere.
  Dispatch(const at::Tensor& chosen, int64_t experts, const ExpertParallel& parallel);

  // x: [tokens, size]; the result has the rows of this rank's experts: [rows, size].
  static at::Tensor ToExperts(const std::shared_ptr<const Dispatch>& way, const at::Tensor& x);
  // weights: [tokens, k], one for each row.
  static at::Tensor WeightsToExperts(const std::shared_ptr<const Dispatch>& way, const at::Tensor& weights);
  // rows: [rows, size], a part of a sum over etp; the result: [tokens, size].
  static at::Tensor FromExperts(const std::shared_ptr<const Dispatch>& way, const at::Tensor& rows);

  const GroupEnds& ends() const { return ends_; }  // of the experts' rows
  // How many of this rank's choices each expert got: [experts].
  const std::vector<int64_t>& counts() const { return counts_; }

  // Without autograd. places: [tokens, k] or [tokens · k, 1], rows in the order they are sent.
  at::Tensor Spread(const at::Tensor& x, const at::Tensor& places) const;
  at::Tensor Collect(const at::Tensor& rows, const at::Tensor& places) const;
  const at::Tensor& places() const { return places_; }

 private:
  at::Tensor Exchange(const at::Tensor& rows, const Parts& sent, const Parts& received,
                      int64_t result_rows) const;

  Communicator& group_;
  const int copies_;  // etp
  at::Tensor places_;
  at::Tensor regrouped_;  // [received rows, 1]
  std::vector<int64_t> counts_;
  ExchangePlan plan_;
  GroupEnds ends_;
};

}  // namespace trireme
