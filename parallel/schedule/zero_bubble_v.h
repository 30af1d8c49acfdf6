// Zero bubble over a V of stages, found by playing: DualPipeV uses it if there are few micro batches.
#pragma once

#include "parallel/schedule/schedule.h"

namespace trireme {

ComputeOrder ZeroBubbleV(int ranks, int micro_batches);

}  // namespace trireme
