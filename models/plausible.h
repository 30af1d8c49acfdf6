// Whether the sizes of a config.json can be a model's, before anything is built from them: a layer graph of 2^40
// experts is not planned, it fills the memory. Knows no family.
#pragma once

#include "models/hf_config.h"

namespace trireme {

// Refuses a size far beyond every model there is, with the key, the value and the limit.
void CheckPlausible(const HfConfig& config);

}  // namespace trireme
