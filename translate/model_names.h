// Models of a hub whose names tell that no family here can read them. A directory's config.json is read by `trireme
// train`.
#pragma once

#include "translate/translation.h"

namespace trireme {

// Looks at model.path, distillation.teacher and reference.
void RefuseUnknownModel(Translation& result);
// Whether the name is that of a model that sees.
bool NamesSeeingModel(const std::string& model);

}  // namespace trireme
