// Scheduler: which tokens of which rows are computed in the next step. A row has tokens (its prompt and what
// was generated) and computed ones, whose keys and values are in blocks of the cache. Every step gives each
// decoding row its next token and fills what the budget leaves with prompts, in the order of arrival. A row
// that needs a block when none is free preempts the row that came last, which is computed again later. Where
// a pipeline has several steps in flight, each takes its part of the rows, and none that is in flight.
// What tokens of a prompt stand for (images) tells its blocks apart, and is kept in one step where it fits.
// Keys of a row whose rotary embedding changes with its length are of no use beyond such a length: it starts anew.
// Integers only, without clock or addresses: every rank that makes the same calls gets the same steps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/io/content_digest.h"
#include "generation/block_pool.h"

namespace trireme {

struct SchedulerOptions {
  int64_t block_size = 32;  // tokens per block
  int64_t blocks = 0;
  bool grows = false;                 // adds blocks instead of preempting
  int64_t max_rows = 8;               // that run at once
  int64_t max_batched_tokens = 2048;  // per step; at least max_rows
  bool prefix_cache = true;
  // Lengths of a row with the same number share its rotary embedding; nullptr: all do.
  std::function<int64_t(int64_t)> length_class = {};
  int64_t passes = 1;  // planned before the first of them is computed: the stages of a pipeline
};

// Tokens of a prompt that stand for something which they do not tell apart, such as an image.
struct ContentSpan {
  int64_t begin = 0, end = 0;
  ContentDigest content = {};
};

struct RowRequest {
  std::vector<int64_t> prompt;             // at least one token
  std::string salt = {};                   // rows of different salts share no blocks
  std::optional<int64_t> after = {};       // a row of the same prompt: waits until that one's is computed
  std::vector<ContentSpan> contents = {};  // in the prompt's order; rows share only blocks with the same
  bool scores_prompt = false;              // logits of all its tokens are wanted: none is taken from the cache
};

struct RowStep {
  int64_t row = 0;
  int64_t past = 0;      // computed tokens
  int64_t fresh = 0;     // tokens to compute now
  bool samples = false;  // its last known token is among them: the next one can be sampled
  bool decodes = false;  // of one token, after its prompt
  int64_t scored = 0;    // so many of the first tokens predict one of the prompt, whose logits are wanted
};

struct SchedulerCounts {
  int64_t running = 0, waiting = 0;
  int64_t preemptions = 0;                      // since the start
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens of admitted rows, and those found in the cache
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // Ids ascend from 0. A prompt that does not fit into all blocks is refused.
  int64_t Add(RowRequest request);
  // Its tokens are forgotten, its blocks are free; full ones may be found by other rows. Unknown rows are
  // ignored.
  void Remove(int64_t row);

  // The next step: decoding rows first, each row at most once. Empty: no row has anything to compute, or all
  // that do are in flight.
  std::vector<RowStep> Plan();
  // The step's keys and values are in the cache. Steps are computed in the order of their plans: a block that a
  // row in flight has lost is written by its next owner later.
  void Computed(const std::vector<RowStep>& step);
  // One more token of a row that is not in flight.
  void Append(int64_t row, int64_t token);
  // No computed token is used again, as after a change of weights. Only while nothing runs.
  void Forget() { pool_.Forget(); }

  bool idle() const { return rows_.empty(); }
  bool has(int64_t row) const { return rows_.contains(row); }
  const std::vector<int64_t>& tokens(int64_t row) const { return rows_.at(row).tokens; }
  const std::vector<int32_t>& blocks(int64_t row) const { return rows_.at(row).blocks; }
  // The first block of each row that has any, in flight or not.
  std::vector<int32_t> FirstBlocks() const;
  int64_t prompt_size(int64_t row) const { return rows_.at(row).prompt; }
  int64_t cached(int64_t row) const { return rows_.at(row).cached; }  // prompt tokens found when it first started
  const BlockPool& pool() const { return pool_; }
  const SchedulerOptions& options() const { return options_; }
  SchedulerCounts counts() const;

 private:
  struct Row {
    std::vector<int64_t> tokens;
    int64_t prompt = 0;  // tokens of it
    std::string salt;
    std::optional<int64_t> after;
    std::vector<ContentSpan> contents = {};
    bool scores_prompt = false;
    int64_t computed = 0;
    std::vector<int32_t> blocks = {};
    int64_t published = 0;         // blocks whose prefix is known
    BlockPool::Prefix prefix = 0;  // of those
    int64_t cached = -1;           // not yet started
    bool in_flight = false;        // in a planned step that is not yet computed
    bool preempted = false;        // since that step was planned

    int64_t missing() const { return static_cast<int64_t>(tokens.size()) - computed; }
    // Until its first token is there: what is computed again later is known.
    bool scores() const { return scores_prompt && static_cast<int64_t>(tokens.size()) == prompt; }
  };

  int64_t BlocksFor(int64_t tokens) const;
  static int64_t WithoutCut(const Row& row, int64_t count);
  std::vector<int64_t> KeyOf(const Row& row, int64_t block) const;
  Error TooLong(int64_t tokens) const;
  void Schedule(int64_t id);
  bool Reserve(int64_t id, int64_t tokens);
  bool TakeBlocks(Row& row, int64_t count);
  void Preempt(int64_t id);
  void ReleaseBlocks(Row& row);
  void Admit();
  bool Fits(Row& row);
  bool IsReady(const Row& row) const;
  void MatchPrefix(Row& row);
  int64_t ClassOf(const Row& row) const;
  std::string SaltOf(const Row& row) const;

  const SchedulerOptions options_;
  BlockPool pool_;
  std::map<int64_t, Row> rows_;
  std::set<int64_t> running_, waiting_;  // ids: in the order of arrival
  std::vector<RowStep> plan_;
  int64_t budget_ = 0;
  size_t most_rows_ = 0;  // of this step
  int64_t next_ = 0;
  SchedulerCounts counts_;
};

}  // namespace trireme
