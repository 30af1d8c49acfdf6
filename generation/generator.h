// Generator: completes a list of prompts with a session's model, as many rows at once as asked for; a row
// that ends makes room for the next. Borrows the weights as they are, so that a run may sample from the model
// it trains. Which tokens end a row, and what happens to them, is up to the caller. Rows that come and go are
// engine.h. No torch in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "generation/engine.h"
#include "generation/sampler.h"

namespace trireme {

// Receives each new token of each row, on every rank, in the same order; returns whether the row continues.
using TakeToken = std::function<bool(size_t row, int64_t token)>;

using GenerationTimes = EngineTimes;

struct GenerationOptions {
  Sampling sampling = {};
  int64_t batch = 8;                  // rows that a data-parallel rank decodes together
  bool keep_cache = false;            // rows that start as those of earlier calls reuse their keys and values
  int64_t max_batched_tokens = 2048;  // as in EngineOptions
  int64_t max_total_tokens = 0;
};

class Generator {
 public:
  // `session` outlives it.
  explicit Generator(Session& session);

  // Collective. Rows of at least one token; data-parallel ranks split them. images: of each prompt; empty: none has
  // any.
  void Run(const std::vector<std::vector<int64_t>>& prompts, const GenerationOptions& options, const TakeToken& take,
           const std::vector<PromptImages>& images = {});

  const GenerationTimes& times() const { return times_; }

 private:
  Session& session_;
  std::optional<Engine> engine_;
  GenerationTimes times_;
};

}  // namespace trireme
