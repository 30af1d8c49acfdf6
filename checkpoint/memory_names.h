// Files of Qwen2.5-VL name modules as transformers did before 4.52; in memory, and so in PEFT's adapters, they are called
// otherwise. Names that are the same in both stay as they are.
#pragma once

#include <string>

#include "core/base/json.h"

namespace trireme {

bool HasOlderNames(const Json& model_config);

// "model.layers.0.mlp" to "model.language_model.layers.0.mlp", "visual.merger" to "model.visual.merger".
std::string NameInMemory(const std::string& name);
// The inverse; a name of the older kind stays as it is.
std::string NameInOlderFiles(const std::string& name);

// An adapter_config.json with the modules' names in memory.
Json ConfigInMemory(Json adapter_config);

}  // namespace trireme
