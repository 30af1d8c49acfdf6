// RecordedSteps: decoding steps on a GPU that are recorded once and replayed, because the host takes longer to launch
// the kernels of a small model than they run. A recording serves all steps of as many rows whose tables have as many
// columns; the first such step is computed as usual, the second is recorded. Steps with prompts, adapters, experts,
// or several ranks for a row are not for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/cuda/bridge.h"
#include "generation/step_pass.h"
#include "parallel/layers/key_value_cache.h"
#include "parallel/objectives/next_token_logits.h"
#include "parallel/pass/pass_batch.h"

namespace trireme {

class Session;

class RecordedSteps {
 public:
  // Empty: steps of the session can be recorded.
  static std::string WhyNot(const Session& session);
  // Both outlive it.
  RecordedSteps(Session& session, KeyValueCache& cache) : session_(session), cache_(cache) {}

  // Whether the step, in host memory, is one to record.
  bool Takes(const StepPass& pass) const;
  // [rows, vocabulary], until the next step.
  at::Tensor Logits(const StepPass& pass);
  // To be called when weights may have moved.
  void Clear() { recordings_.clear(); }

 private:
  struct Recording {
    PassInput input;                  // on the device, with the tables: views of `places`
    at::Tensor places, slots, table;  // what differs from step to step, in one piece
    std::unique_ptr<NextTokenLogits> objective;
    std::unique_ptr<PassBatch> batch;  // holds what the graph computes
    std::unique_ptr<CudaGraph> graph;  // nullptr: not recorded yet
    bool computed = false;
  };

  void Prepare(Recording& recording, int64_t rows, int64_t columns) const;
  void Compute(Recording& recording, const PagedRows& rows, int64_t columns);
  void Record(Recording& recording, const PagedRows& rows, int64_t columns);

  Session& session_;
  KeyValueCache& cache_;
  int64_t blocks_ = 0;                                           // of the cache that is recorded
  std::map<std::pair<int64_t, int64_t>, Recording> recordings_;  // by rows and columns
  bool failed_ = false;                                          // a step could not be recorded: none is
};

}  // namespace trireme
