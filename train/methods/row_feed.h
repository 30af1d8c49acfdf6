// RowFeed: the rows of each step of a run, in sampling order, read ahead while the step before is trained on. What is
// made of them is up to the method.
#pragma once

#include <cstdint>

#include "data/prefetch.h"
#include "train/methods/method.h"
#include "train/step/batch_sampler.h"
#include "train/step/row_sharing.h"

namespace trireme {

class RowFeed {
 public:
  RowFeed(Rows rows, const MethodRun& run);

  // Those of a step, counted from 1; starts to read the next one's.
  StepRows Take(int64_t step);
  const RowSource& rows() const { return rows_; }
  const BatchSamplerOptions& order() const { return order_.options(); }
  double waited_seconds() const { return rows_.waited_seconds(); }  // so far
  double EpochAt(int64_t step) { return order_.EpochAt(step); }
  bool EndsEpoch(int64_t step) { return order_.EndsEpoch(step); }
  bool shares_by_cost() const;

 private:
  void Read(int64_t step);

  Trainer& trainer_;
  const Config& config_;
  const Rows source_;
  Prefetcher rows_;
  BatchSampler order_;
  const int64_t total_steps_;
  int64_t read_step_ = 0;  // whose rows next_ has; 0: none yet
  StepRows next_;
};

}  // namespace trireme
