// Engine: generates for rows that come and go, with a session's model: add, step, end. Each step computes the
// next token of every running row and parts of prompts beside them, under any layout but context parallel.
// In a pipeline rows form as many groups as it has stages, which take turns: a step then ends one group's pass
// and begins another's.
// Its rows are the same on every rank: each rank plans each step by itself from the same calls, so that only
// what a caller alone knows (new rows, rows that end) has to be told to the others; the sampled tokens are
// summed over all ranks. What a row's tokens mean, and when it ends, is up to the caller. No torch in this
// header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "generation/cache_bytes.h"
#include "generation/prompt_images.h"
#include "generation/sampler.h"
#include "generation/scheduler.h"

namespace trireme {

class JsonTokens;
class Session;

struct EngineOptions {
  int64_t max_rows = 8;               // that a data-parallel rank decodes at once
  int64_t max_batched_tokens = 2048;  // computed per step on a data-parallel rank
  // Whose keys and values a data-parallel rank caches at once; 0: as many as the running rows need.
  int64_t max_total_tokens = 0;
  int64_t block_size = kCacheBlock;
  bool prefix_cache = true;
  // Rows without an adapter use the session's own adapters. false: they use the model without them, and rows may name
  // adapters; the adapters may change meanwhile.
  bool own_adapter = true;
  // The session's layout splits sequences (parallel.context), for training: the ranks that do repeat each other's steps
  // here. false: such a layout is refused.
  bool repeat_context = false;
  std::shared_ptr<const JsonTokens> json_tokens = {};  // for rows that generate JSON; nullptr: none does
};

struct EngineRow {
  std::vector<int64_t> prompt;  // at least one token
  Sampling sampling = {};
  int64_t stream = 0;                 // its random numbers: a row of the same seed and stream samples the same
  std::optional<int64_t> top = {};    // log-probabilities: of the token, and of this many most likely ones
  bool prompt_log_probs = false;      // the same of the prompt's tokens; needs top, and takes nothing from the cache
  double log_prob_temperature = 1;    // that log-probabilities are at
  std::string salt = {};              // rows of different salts share no part of the cache
  std::optional<int64_t> after = {};  // a row with the same prompt, which this one's start may reuse
  int64_t adapter = -1;               // of AddAdapter; -1: the model as it is
  bool json = false;                  // one JSON object and nothing else: the row is to be ended when it is complete
  PromptImages images = {};           // of a model that sees: what the prompt's placeholders stand for, in their order
};

struct NewToken {
  int64_t row = 0;
  int64_t token = 0;
  std::vector<TokenLogProb> log_probs = {};  // if requested: of the token, then of the most likely ones
  bool complete = false;                     // of a row of JSON: its object ends with it
  // With the first token of a row that requested them: of each of the prompt's tokens from the second on.
  std::vector<std::vector<TokenLogProb>> prompt_log_probs = {};
};

struct EngineTimes {                          // of this rank's passes
  int64_t prompt_tokens = 0, new_tokens = 0;  // new: without each row's first, which comes from the prompt
  double prompt_seconds = 0, new_seconds = 0;
  int64_t stage_steps = 0, idle_stage_steps = 0;  // of this rank's pipeline stages; idle: without a row
};

// Rejects a configuration that generation does not support.
void RefuseUngeneratable(const Config& config);

// Bytes of keys and values that a rank caches per token.
int64_t CacheBytesPerToken(const Session& session);
int64_t StateBytesPerRow(const Session& session);

class Engine {
 public:
  // `session` outlives it. Collective, as are all calls that change it: the same on every rank, in the same
  // order.
  Engine(Session& session, const EngineOptions& options);
  ~Engine();

  // The row's id. Data-parallel ranks take rows in turn. Images that do not match the prompt are an input error.
  int64_t Add(EngineRow row);
  // Takes effect before the next step. Unknown rows are ignored.
  void End(int64_t row);
  // One step. The tokens that were sampled, perhaps none; their rows continue until they are ended.
  std::vector<NewToken> Step();
  // A LoRA adapter's directory, for rows that name it: unmerged, so that rows of several adapters and of none run
  // in one step. What does not fit the model, on any rank, is an input error on all. Its id is never used again,
  // so that no row finds the cache of another adapter.
  int64_t AddAdapter(const std::string& directory);
  // No new rows; those that use it keep it to their end.
  void DropAdapter(int64_t adapter);
  bool has_adapter(int64_t adapter) const;  // that new rows may name

  // The cache is not used again: weights have changed. Only while no row is there.
  void Forget();

  bool idle() const;                  // no row is there
  int stages() const;                 // of the pipeline; more than one: passes are in flight between two steps
  int64_t cached(int64_t row) const;  // prompt tokens of a row that were found in the cache
  SchedulerCounts counts() const;     // over all data-parallel ranks
  double cache_usage() const;         // share of blocks in use
  const EngineTimes& times() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme
