#include "train/run/step_speed.h"

#include "parallel/graph/costs.h"

namespace trireme {

void AddSpeed(const LayerGraph& graph, const RowSource& rows, std::span<const int64_t> batch, double peak_rate,
              LoggedStep& step) {
  double flops = 0;
  int64_t all_tokens = 0;
  for (const int64_t row : batch) {
    all_tokens += rows.Length(row);
    step.tokens += rows.Trained(row);
    const RowExtent extent = rows.Extent(row);
    step.samples += std::ssize(extent.documents);
    flops += ModelFlops(graph, extent);
  }
  step.tokens_per_second = static_cast<double>(all_tokens) / step.step_seconds;
  step.mfu = flops / step.step_seconds / peak_rate;
}

}  // namespace trireme
