// StepPipeline: the steps of an engine on their way through the stages of its model. At each tick every stage
// computes another step, and hands it to the next stage: with as many groups of rows as stages, none is idle.
// A model of one stage has one step in flight, which a tick begins and ends. Knows neither rows nor sampling.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "generation/recorded_steps.h"
#include "generation/scheduler.h"
#include "generation/step_pass.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/objectives/next_token_logits.h"
#include "parallel/pass/pass_batch.h"

namespace trireme {

class Session;
class StageWork;

// What a line of logits is for.
struct LogitLine {
  int64_t row = 0;            // the engine's id
  int64_t prompt_token = -1;  // which token of its prompt is scored; -1: the row gets a token
};

// A step of all data-parallel ranks, the same on every rank.
struct EngineStep {
  std::vector<std::vector<RowStep>> plans;  // by data-parallel rank
  std::vector<LogitLine> lines;             // data-parallel rank by data-parallel rank
};

class StepPipeline {
 public:
  // `session` and `cache` outlive it. own_adapter: the session's own adapters take part.
  StepPipeline(Session& session, KeyValueCache& cache, bool own_adapter);

  int stages() const { return stages_; }
  // Collective over the pipeline. `pass`: this rank's part of the step, in host memory; nullptr: it has nothing to
  // compute. Returns the step that left the last stage, if there is one, with its logits: undefined where nothing was
  // computed, and on ranks without the head.
  struct Done {
    EngineStep step;
    at::Tensor logits;
  };
  std::optional<Done> Tick(EngineStep step, std::unique_ptr<StepPass> pass);
  // Drops what is in flight: the same on every rank.
  void Clear() { flights_.clear(); }
  // To be called when weights may have moved.
  void DropRecordings() {
    if (recorded_ != nullptr) recorded_->Clear();
  }

  // Ticks of this rank's stages, and those in which a stage had nothing to compute.
  int64_t stage_steps() const { return stage_steps_; }
  int64_t idle_stage_steps() const { return idle_stage_steps_; }

 private:
  struct Flight {
    EngineStep step;
    PagedRows rows;
    std::unique_ptr<const PassAdapters> adapters;
    std::unique_ptr<NextTokenLogits> objective;
    std::unique_ptr<PassBatch> batch;  // nullptr: nothing to compute
    at::Tensor value;                  // on the rank that computes it next
  };

  bool IsMine(int stage) const;
  StageWork& StageOf(Flight& flight, int stage);
  void Compute(Flight& flight, int stage);
  void HandOver(Flight& flight, int stage);

  Session& session_;
  KeyValueCache& cache_;
  const bool own_adapter_;
  const int stages_;
  std::unique_ptr<RecordedSteps> recorded_;  // nullptr: steps are not recorded
  std::deque<Flight> flights_;               // by the stage that computes it in this tick
  int64_t stage_steps_ = 0, idle_stage_steps_ = 0;
};

}  // namespace trireme
