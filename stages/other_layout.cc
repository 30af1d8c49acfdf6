#include "stages/other_layout.h"

#include <algorithm>

namespace trireme {

bool IsLayout(const LayoutConfig& layout) {
  return layout.tensor() + layout.pipeline() + layout.expert() + layout.expert_tensor() > 0;
}

Config UnderLayout(const Config& config, const LayoutConfig& layout) {
  Config other = config;
  ParallelConfig& parallel = *other.mutable_parallel();
  parallel.Clear();
  parallel.set_tensor(std::max(layout.tensor(), 1));
  parallel.set_pipeline(std::max(layout.pipeline(), 1));
  parallel.set_expert(std::max(layout.expert(), 1));
  parallel.set_expert_tensor(std::max(layout.expert_tensor(), 1));
  parallel.set_sequence(config.parallel().sequence());
  parallel.set_zero(0);
  return other;
}

bool SameLayout(const ParallelConfig& parallel, const ParallelConfig& other) {
  return parallel.tensor() == other.tensor() && parallel.pipeline() == other.pipeline() &&
         parallel.expert() == other.expert() && parallel.expert_tensor() == other.expert_tensor() &&
         parallel.context() == 1;
}

}  // namespace trireme
