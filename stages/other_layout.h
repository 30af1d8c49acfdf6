// Layouts of models that run beside the trained one on the same ranks: for sampling, and of a teacher. No torch.
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Whether it is one, or leaves the model under the layout of parallel.
bool IsLayout(const LayoutConfig& layout);
// The same run under that layout: all weights on each data-parallel rank, no context parallelism.
Config UnderLayout(const Config& config, const LayoutConfig& layout);
// Whether a layout without context parallelism splits a model as the other does.
bool SameLayout(const ParallelConfig& parallel, const ParallelConfig& other);

}  // namespace trireme
