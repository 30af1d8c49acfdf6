// A model with a larger vocabulary, for model.new_tokens, model.new_special_tokens and model.vocabulary_multiple: a
// Hugging Face directory of its own in the user's cache, made once, so that everything else sees an ordinary model. No
// torch.
#pragma once

#include <string>

#include "core/config.pb.h"

namespace trireme {

// The directory to use as model.path: the same where the vocabulary need not grow. Not collective: the first process
// that comes makes it, the others on its host wait.
std::string GrownModel(const Config& config);

}  // namespace trireme
