// Copies what a model directory has besides its weights to another one: config, generation config, tokenizer,
// chat template. No weights, no weight indices.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/plan/dtype.h"

namespace trireme {

struct CarryOptions {
  std::optional<DType> dtype = {};         // of the weights, if config.json is to say it
  std::optional<std::string> config = {};  // the text of config.json, in place of the directory's own
  bool value_head = false;                 // LLaMA-Factory's value_head.safetensors is carried, too
};

// If the weights' dtype differs from config.json's, its dtype is changed; everything else is copied byte for
// byte.
void CarryFiles(const std::filesystem::path& from, const std::filesystem::path& to, const CarryOptions& options);

}  // namespace trireme
