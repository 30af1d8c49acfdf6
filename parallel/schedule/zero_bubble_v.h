// Zero bubble over a V of stages, found by playing: serves DualPipeV where micro batches are few.
#pragma once

#include "parallel/schedule/schedule.h"

namespace trireme {

ComputeOrder ZeroBubbleV(int ranks, int micro_batches);

}  // namespace trireme
