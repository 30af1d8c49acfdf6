// The vision tower of Qwen3-VL and Qwen3.5: LayerNorm, GELU, learned positions; its keys and its names in files. Knows
// no text model.
#pragma once

#include "models/seeing.h"

namespace trireme {

// Puts the tower of root's vision_config before the graph's embedding. deepstack: features of some of its layers are
// added to the outputs of the first decoder layers.
LayerGraph WithGeluTower(LayerGraph graph, const HfConfig& root, bool deepstack);

}  // namespace trireme
