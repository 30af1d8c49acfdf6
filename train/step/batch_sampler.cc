#include "train/step/batch_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace trireme {

void BatchSampler::MakeOrder(int64_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  order_ = ShuffledOrder(options_.rows, {options_.seed, Concat("row order of epoch ", epoch)});
}

// With a ramp sizes depend on all steps before.
BatchSampler::Span BatchSampler::SpanOf(int64_t step) {
  if (options_.ramp.start == 0) {
    const int64_t begin = (step - 1) % steps_per_epoch() * options_.batch;
    return {(step - 1) / steps_per_epoch(), begin, std::min(begin + options_.batch, options_.rows)};
  }
  while (std::ssize(ramped_) < step) {
    const Span last = ramped_.empty() ? Span{} : ramped_.back();
    const bool fresh = last.end == options_.rows;
    const Span next{.epoch = last.epoch + (fresh ? 1 : 0), .begin = fresh ? 0 : last.end};
    const int64_t batch = options_.ramp.BatchAfter(next.epoch * options_.rows + next.begin);
    ramped_.push_back({next.epoch, next.begin, std::min(next.begin + batch, options_.rows)});
  }
  return ramped_[static_cast<size_t>(step) - 1];
}

std::vector<int64_t> BatchSampler::RowsOf(int64_t step) {
  const Span span = SpanOf(step);
  if (options_.shuffle) {
    MakeOrder(span.epoch);
    return {order_.begin() + span.begin, order_.begin() + span.end};
  }
  std::vector<int64_t> rows(
      static_cast<size_t>(span.end - span.begin));  // without a table of all: streams may have very many
  std::iota(rows.begin(), rows.end(), span.begin);
  return rows;
}

double BatchSampler::EpochAt(int64_t step) {
  if (step == 0) return 0;
  const Span span = SpanOf(step);
  return static_cast<double>(span.epoch) + static_cast<double>(span.end) / static_cast<double>(options_.rows);
}

bool BatchSampler::EndsEpoch(int64_t step) { return SpanOf(step).end == options_.rows; }

int64_t BatchSampler::StepsOf(double epochs) {
  const auto parts = [](int64_t steps, double part) {
    return static_cast<int64_t>(std::ceil(part * static_cast<double>(steps)));
  };
  if (options_.ramp.start == 0) return parts(steps_per_epoch(), epochs);
  int64_t before = 0;
  for (double left = epochs; left > 0; --left) {
    int64_t last = before + 1;
    while (!EndsEpoch(last)) ++last;
    if (left <= 1) return before + parts(last - before, left);
    before = last;
  }
  return before;
}

}  // namespace trireme
