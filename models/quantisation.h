// How a model directory says that its weights are quantised: config.json's quantization_config. Which kinds can be read
// is known here; reading them is session/load_weights.
#pragma once

#include "models/hf_config.h"

namespace trireme {

// Refuses other weights than plain ones, blocks of fp8, and those that checkpoint/packed_formats.cc lists.
void CheckQuantisation(const HfConfig& config);

}  // namespace trireme
