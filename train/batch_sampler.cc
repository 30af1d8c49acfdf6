#include "train/batch_sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace trireme {

void BatchSampler::MakeOrder(int64_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  order_.resize(options_.rows);
  std::iota(order_.begin(), order_.end(), int64_t{0});
  if (!options_.shuffle) return;
  const RandomStream random(options_.seed, Concat("row order of epoch ", epoch));
  for (int64_t i = options_.rows - 1; i > 0; --i) {
    std::swap(order_[i], order_[random.Below(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(i))]);
  }
}

std::vector<int64_t> BatchSampler::RowsOf(int64_t step) {
  MakeOrder((step - 1) / steps_per_epoch());
  const int64_t begin = (step - 1) % steps_per_epoch() * options_.batch;
  const int64_t end = std::min(begin + options_.batch, options_.rows);
  return {order_.begin() + begin, order_.begin() + end};
}

double BatchSampler::EpochAt(int64_t step) const {
  const int64_t epochs = step / steps_per_epoch();
  const int64_t rows = step % steps_per_epoch() * options_.batch;
  return static_cast<double>(epochs) + static_cast<double>(rows) / static_cast<double>(options_.rows);
}

}  // namespace trireme
