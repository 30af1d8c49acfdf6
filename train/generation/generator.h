// Generator: generates with a session's model: a KV cache, token by token for many rows at once, under
// any layout but context parallel. Borrows the weights as they are, so that a run may sample from the model
// it trains. Which tokens end a row, and what happens to them, is up to the caller. No torch in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/generation/sampler.h"

namespace trireme {

class Session;

// Receives each new token of each row, on every rank, in the same order; returns whether the row continues.
using TakeToken = std::function<bool(size_t row, int64_t token)>;

struct GenerationTimes {                      // of this rank's passes
  int64_t prompt_tokens = 0, new_tokens = 0;  // new: without each row's first, which comes from prefill
  double prompt_seconds = 0, new_seconds = 0;
};

struct GenerationOptions {
  Sampling sampling = {};
  int64_t batch = 8;        // rows that a data-parallel rank decodes together
  bool keep_cache = false;  // for a row that starts as in the last call, only the rest is fed to the model
};

// Rejects a configuration that generation does not support.
void RefuseUngeneratable(const Config& config);

class Generator {
 public:
  // `session` outlives it.
  explicit Generator(Session& session);
  ~Generator();

  // Collective. Rows of at least one token; data-parallel ranks split them.
  void Run(const std::vector<std::vector<int64_t>>& prompts, const GenerationOptions& options,
           const TakeToken& take);

  const GenerationTimes& times() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme
