// A Hugging Face directory that is made of another one and kept in the user's cache, so that everything else sees an
// ordinary model. What is in it is up to the callers. No torch.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/config.pb.h"

namespace trireme {

// A directory beside others of its kind, named after the model and `digest`, of everything that it depends on. `fill`
// writes it, if it is not there; `what`: for messages, such as "a model with new tokens".
std::string DerivedDirectory(const Config& config, const std::string& digest, const std::string& what,
                             const std::function<void(const std::filesystem::path& folder)>& fill);

}  // namespace trireme
