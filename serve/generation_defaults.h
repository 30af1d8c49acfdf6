// What a server samples with where a request says nothing. OpenAI's own values, unless the server was told others.
#pragma once

#include <cstdint>
#include <optional>

namespace trireme {

struct GenerationDefaults {
  double temperature = 1, top_p = 1, min_p = 0;
  double presence_penalty = 0, frequency_penalty = 0, repetition_penalty = 1;
  int64_t top_k = 0;
  std::optional<int64_t> max_tokens = {};  // nothing: what fits in chats, 16 in completions
};

}  // namespace trireme
