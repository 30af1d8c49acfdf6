// What a model directory has beside its weights, carried over to another one: config, generation config,
// tokenizer, chat template. No weights, no indices of weights.
#pragma once

#include <filesystem>
#include <optional>

#include "core/plan/dtype.h"

namespace trireme {

// Where the weights' type is not the one that config.json says, its dtype is changed; everything else is
// copied byte by byte.
void CarryFiles(const std::filesystem::path& from, const std::filesystem::path& to,
                std::optional<DType> dtype);

}  // namespace trireme
