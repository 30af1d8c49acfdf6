// A model with another rotary embedding, for model.rope: the directory of the model with a changed config.json and
// links to its other files. No torch.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/config.pb.h"

namespace trireme {

// The directory to use as model.path: the same where model.rope changes nothing, as in a run's own result. Refuses
// values that mean nothing, and models whose layers have rotary embeddings of their own.
std::string RopeModel(const Config& config);

// config.json as it becomes. `source`: the file, for messages.
Json WithRope(Json model, const RopeConfig& rope, const std::string& source);

}  // namespace trireme
