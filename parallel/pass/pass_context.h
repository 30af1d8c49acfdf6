// PassContext: what lives as long as one micro batch's pass through the layers: why it runs (PassOptions),
// and what layers compute once and share: rotary tables, router counts. Results are in PassResult.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ops/rotary/rotary.h"
#include "parallel/experts/router_losses.h"
#include "parallel/pass/batch_totals.h"
#include "parallel/pass/pass_input.h"
#include "parallel/pass/rotation.h"

namespace trireme {

class KeyValueCache;  // parallel/layers
class Objective;      // parallel/objectives
struct PassOutput;
struct AdapterSlots;  // ops/low_rank
struct TowerTables;   // parallel/layers

struct PassWants {                  // requested of the head per micro batch, in addition to the objective's sums
  bool log_probs = false;           // of each label
  bool entropies = false;           // of the distribution over the label's position
  bool sequence_log_probs = false;  // their sum over each document
  bool hidden = false;              // after the final norm
  bool scores = false;           // of a value head, for each token; of one beside the logits, where labels are trained
  bool sequence_scores = false;  // that of each document's last token
};

// The same for all micro batches of a run of the executor.
struct PassOptions {
  const Objective* objective = nullptr;  // what the head computes
  bool differentiate = true;             // a backward pass follows
  bool adapters = true;                  // false: LoRA adapters are ignored, as in the base model
  std::optional<uint64_t> dropout = {};  // the step's seed; nullopt: no dropout
  // Experts exchange tokens in sizes that the steps before had (parallel/experts/expected_rows.h). Whoever asks for it
  // checks afterwards whether all tokens had room, and otherwise repeats the pass.
  bool expects_rows = false;
  KeyValueCache* cache = nullptr;  // generation: tokens attend to their rows' cached keys
  BatchTotals totals = {};
  PassWants wants = {};
};

class PassContext {
 public:
  // All references outlive it; `totals` are those of the options, or of one depth in them.
  PassContext(const PassInput& input, const PassOptions& options, const BatchTotals& totals, PassOutput* output);

  const PassInput& input;
  const PassOptions& options;
  const BatchTotals& totals;
  PassOutput* const output;  // nullptr for the depths of multi-token prediction

  // By depth, counted from 0.
  PassContext& mtp(int64_t depth) { return *mtp_.at(static_cast<size_t>(depth)); }
  int64_t mtp_depths() const { return static_cast<int64_t>(mtp_.size()); }

  // Computed once for all layers with the same rotary embedding.
  const RotaryTable& TableFor(const Rotation& rotation);
  std::shared_ptr<const TowerTables>& tower_tables() { return tower_tables_; }  // null until a vision tower fills it
  // Which of the models in the LoRA adapters each token uses; nullptr: all of them are one model's.
  std::shared_ptr<const AdapterSlots> Slots();
  RouterPool& router_pool() { return router_pool_; }  // router counts of all layers

 private:
  std::map<std::vector<double>, RotaryTable> tables_;  // by the rotation's key
  std::shared_ptr<const TowerTables> tower_tables_;
  std::shared_ptr<const AdapterSlots> slots_;
  RouterPool router_pool_;
  std::vector<std::unique_ptr<PassContext>> mtp_;
};

}  // namespace trireme
