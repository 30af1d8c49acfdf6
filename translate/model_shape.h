// Megatron's flags of a model's shape as a Hugging Face config.json.
#pragma once

#include <string>

#include "translate/given.h"
#include "translate/translation.h"

namespace trireme {

// Names of flags that only the shape needs, with blanks between them.
std::string ShapeFlags();
// num-layers without the layers that do nothing.
int LayersOf(const Given& given);
// The family by --model-type-hf or by the shape; empty, and refused, if none here has it.
std::string FamilyOf(const Given& given, Translation& result);
// config.json; empty if the family's is not made from flags.
std::string ModelConfigJson(const Given& given, const std::string& family);

}  // namespace trireme
