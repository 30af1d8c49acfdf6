// BatchSampler: which rows of a dataset each optimizer step uses. Epoch by epoch, in file order or shuffled
// from the seed; the same on every rank and under every layout. Holds no row.
#pragma once

#include <cstdint>
#include <vector>

#include "train/step/batch_ramp.h"

namespace trireme {

struct BatchSamplerOptions {
  int64_t rows = 0;   // of the dataset
  int64_t batch = 1;  // rows per optimizer step; the last step of an epoch uses what is left
  bool shuffle = true;
  uint64_t seed = 0;
  BatchRamp ramp = {};  // with a start: how rows per step grow to `batch`
};

class BatchSampler {
 public:
  explicit BatchSampler(const BatchSamplerOptions& options) : options_(options) {}

  const BatchSamplerOptions& options() const { return options_; }
  // Of an epoch without a ramp.
  int64_t steps_per_epoch() const { return (options_.rows + options_.batch - 1) / options_.batch; }
  // Rows of a step, counted from 1.
  std::vector<int64_t> RowsOf(int64_t step);
  // Epochs completed after that step, for example 1.5.
  double EpochAt(int64_t step);
  // Whether it is the last step of its epoch.
  bool EndsEpoch(int64_t step);
  // Steps that so many epochs take, from the first one; a part of an epoch as many of its steps.
  int64_t StepsOf(double epochs);

 private:
  struct Span {  // of a step
    int64_t epoch = 0, begin = 0, end = 0;
  };
  Span SpanOf(int64_t step);
  void MakeOrder(int64_t epoch);

  BatchSamplerOptions options_;
  int64_t epoch_ = -1;  // whose order is in order_
  std::vector<int64_t> order_;
  std::vector<Span> ramped_;  // with a ramp: the first steps, as far as they were asked for
};

}  // namespace trireme
