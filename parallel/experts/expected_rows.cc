#include "parallel/experts/expected_rows.h"

#include <ATen/ops/maximum.h>

#include <algorithm>

#include "core/base/error.h"
#include "parallel/experts/dispatch_plan.h"

namespace trireme {

void ExpectedRows::Observe(const at::Tensor& counts) {
  const at::Tensor flat = counts.flatten();
  largest_ = largest_.defined() ? at::maximum(largest_, flat) : flat;
}

// Steps differ in their longest rows and in what routers prefer: an old maximum is forgotten slowly, since a step that
// does not fit costs more than room.
void ExpectedRows::Learn(std::span<const float> largest) {
  constexpr int64_t kForgotten = 16;
  seen_.resize(largest.size());
  TRIREME_CHECK(rooms_.empty() || rooms_.size() == largest.size()) << "another group than before";
  rooms_.clear();
  for (size_t i = 0; i < largest.size(); ++i) {
    seen_[i] = std::max(static_cast<int64_t>(largest[i]), seen_[i] - seen_[i] / kForgotten);
    rooms_.push_back(RoomFor(seen_[i]));
  }
  largest_ = at::Tensor();
}

}  // namespace trireme
