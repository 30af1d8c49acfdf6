// The model that a run makes of the one it was given, for model.new_tokens (grown_model.h) and model.rope
// (rope_model.h). No torch.
#pragma once

#include <string>

#include "core/config.pb.h"

namespace trireme {

// model.path with all that RUN.yaml's section model changes: the same where it changes nothing. Not collective: the
// first process that comes makes the directory, the others on its host wait.
std::string DerivedModel(const Config& config);

}  // namespace trireme
