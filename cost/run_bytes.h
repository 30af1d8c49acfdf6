// Bytes per element and parameter that follow from a run's keys.
#pragma once

#include "core/config.pb.h"

namespace trireme {

double ElementBytes(const Config& config);  // of activations and weights
// That an update reads and writes per parameter of the rank's share.
double UpdateBytes(const Config& config);
// That a checkpoint holds per trained parameter: its value and the optimizer's states.
double SavedBytes(const Config& config);

}  // namespace trireme
