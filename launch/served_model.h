// What `trireme serve` says of its model to the protocols: its tokenizer, chat template and tools, its name, the images
// that it takes. Read and checked before any weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/cli/command.h"
#include "core/config.pb.h"
#include "generation/json_tokens.h"
#include "parallel/graph/graph.h"
#include "serve/openai_request.h"

namespace trireme {

inline constexpr int64_t kMostImages = 8, kMostImagePixels = int64_t{4096} * 4096;

struct TextSide {
  TextSide(const Config& config, bool speaks);

  const Tokenizer tokenizer;
  std::optional<ChatTemplate> chat;
  std::shared_ptr<const JsonTokens> json;  // nullptr: answers cannot be restricted to it
  std::string why_no_json;
  int64_t token_bytes = 256;  // that one token stands for at most; more where a longer one is known
};

std::string LastComponent(const std::string& directory);

ServedModel ModelOf(const Arguments& arguments, const std::string& directory, const TextSide& text, int64_t vocabulary);

// Of a model that sees. Without its image processor's settings it is served, too, for text.
void UseImages(const Arguments& arguments, const Config& config, const LayerGraph& graph, bool speaks,
               ServedModel& model);

}  // namespace trireme
