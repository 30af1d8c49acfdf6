// Generator: a session's model as one that writes: a key-value cache, token after token for many rows at once, under
// any layout but context parallel. Borrows the weights as they are, so that a run may sample from the model it trains.
// Which tokens end a row, and what becomes of them, is the caller's. No torch in this header.
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

// Gets each new token of each row, on every rank, in the same order; returns whether the row goes on.
using TakeToken = std::function<bool(size_t row, int64_t token)>;

struct GenerationTimes {                      // of the passes, on this rank
  int64_t prompt_tokens = 0, new_tokens = 0;  // new: without each row's first, which the prompt's pass gives
  double prompt_seconds = 0, new_seconds = 0;
};

struct GenerationOptions {
  Sampling sampling = {};
  int64_t batch = 8;        // rows that a data-parallel rank decodes together
  bool keep_cache = false;  // of a row that begins as in the last call, only the rest passes the model
};

// Refuses a configuration that generation does not run under.
void RefuseUngeneratable(const Config& config);

class Generator {
 public:
  // `session` outlives it.
  explicit Generator(Session& session);
  ~Generator();

  // Collective. Rows of at least one token; data-parallel ranks share them out.
  void Run(const std::vector<std::vector<int64_t>>& prompts, const GenerationOptions& options,
           const TakeToken& take);

  const GenerationTimes& times() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme
