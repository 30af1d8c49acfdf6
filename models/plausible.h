// Whether the sizes of a config.json are plausible, before anything is built from them: a layer graph of 2^40
// experts would fill the memory while it is planned. Knows no family.
#pragma once

#include "models/hf_config.h"

namespace trireme {

// Refuses a size far beyond every known model, with the key, the value and the limit.
void CheckPlausible(const HfConfig& config);

}  // namespace trireme
