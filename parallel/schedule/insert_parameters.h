// InsertParameterActions: inserts gathering, freeing and reducing of parameters and gradients that are
// sharded over the data-parallel ranks into a table that has its messages.
#pragma once

#include "parallel/schedule/schedule.h"

namespace trireme {

// zero 0, 1: a chunk's gradients are reduced once, after its last weight gradient.
// zero 2: they are reduced after each weight gradient, so that a rank never holds full gradients of two chunks.
// zero 3: parameters, too, are gathered only around their use: the current chunk and the next one, gathered
// early so that compute hides the gather. With one or two chunks per rank these are all.
Schedule InsertParameterActions(Schedule schedule, int zero);

}  // namespace trireme
