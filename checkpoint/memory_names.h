// Files of Qwen2.5-VL and InternVL name modules as transformers did before 4.52; in memory, and so in PEFT's adapters,
// they are called otherwise. Names that are the same in both stay as they are.
#pragma once

#include <string>

#include "core/base/json.h"

namespace trireme {

bool HasOlderNames(const Json& model_config);

// Qwen2.5-VL: "model.layers.0.mlp" to "model.language_model.layers.0.mlp", "visual.merger" to "model.visual.merger".
// InternVL: "language_model.model.layers.0.mlp" to the same, "vision_tower.encoder" to "model.vision_tower.encoder".
std::string NameInMemory(const std::string& name);
// The inverse, of Qwen2.5-VL or of InternVL; a name of the older kind stays as it is.
std::string NameInOlderFiles(const std::string& name, bool internvl = false);

// An adapter_config.json with the modules' names in memory.
Json ConfigInMemory(Json adapter_config);

}  // namespace trireme
