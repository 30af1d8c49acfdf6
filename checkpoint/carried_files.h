// Copies what a model directory has besides its weights to another one: config, generation config, tokenizer,
// chat template. No weights, no weight indices.
#pragma once

#include <filesystem>
#include <optional>

#include "core/plan/dtype.h"

namespace trireme {

// If the weights' dtype differs from config.json's, its dtype is changed; everything else is copied byte for
// byte.
void CarryFiles(const std::filesystem::path& from, const std::filesystem::path& to,
                std::optional<DType> dtype);

}  // namespace trireme
