// InsertParameterActions: gathering, freeing and reducing of parameters and gradients that are split over the
// data-parallel ranks, put into a table that has its messages.
#pragma once

#include "parallel/schedule/schedule.h"

namespace trireme {

// zero 0, 1: a chunk's gradients are reduced once, after its last weight gradient.
// zero 2: they are reduced after each weight gradient, so that a rank never keeps them whole for two chunks.
// zero 3: also the parameters are whole only around their use: the chunk in use, and the next one, gathered
// early so that gathering hides behind compute. With one or two chunks a rank these are all.
Schedule InsertParameterActions(Schedule schedule, int zero);

}  // namespace trireme
