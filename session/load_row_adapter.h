// Loads a LoRA adapter beside a session's weights, for rows that use it in generation: this rank's slices only.
#pragma once

#include <memory>
#include <string>

#include "parallel/layers/row_adapters.h"

namespace trireme {

class Session;

// Every rank reads its own part; not collective. What does not fit the model is an input error.
std::shared_ptr<const AdapterWeights> LoadRowAdapter(Session& session, const std::string& directory);

}  // namespace trireme
