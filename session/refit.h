// Refit: brings the weights of one session into another of the same model under another layout, on the same ranks, by a
// RefitPlan: the same bits afterwards. One layer at a time, so that no more than a layer's weights are in transit. When
// it happens is decided elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "parallel/tensor/rank_cargo.h"
#include "session/refit_plan.h"
#include "session/session.h"

namespace trireme {

class Refit {
 public:
  // Both outlive it. The weights of `to` are this object's to write.
  Refit(Session& from, Session& to);

  const RefitPlan& plan() const { return plan_; }
  // Collective over the job.
  void Run();

 private:
  struct Local {
    Bucket* bucket;
    Weights::Entry* entry;
  };
  using Locals = std::map<std::string, Local>;  // by parameter
  static Locals LocalsOf(Session& session);
  // Of the moves [begin, end); copies what stays here.
  RankCargo Load(size_t begin, size_t end) const;
  // The moves [begin, end), of one layer's parameters.
  void MoveLayer(size_t begin, size_t end);
  // Where a move's box is in this rank's memory.
  at::Tensor View(const Locals& locals, const RefitMove& move) const;

  Session& from_;
  Session& to_;
  const RefitPlan plan_;
  const Locals sources_, targets_;
};

}  // namespace trireme
