// Executor: runs one rank's table of a pipeline schedule for one optimizer step, with one switch over the
// actions. Computes nothing itself (stage_work.h does) and decides nothing (the table does); the parameter
// update comes after it.
#pragma once

#include <vector>

#include "core/comm/communicator.h"
#include "parallel/executor/mailbox.h"
#include "parallel/executor/stage_work.h"
#include "parallel/schedule/schedule.h"

namespace trireme {

class Trace;  // core/trace

class Executor {
 public:
  // `chunks`: this rank's stages in the order of their chunks. All references outlive the executor; `trace`
  // may be null.
  Executor(const Schedule& schedule, std::vector<StageWork*> chunks, Communicator& pipeline, Trace* trace = nullptr);

  // Every micro batch forward and backward on this rank's stages. Collective over the pipeline.
  void Run();

 private:
  void PostBatches(size_t step);
  void Compute(const Action& action, bool reduce);
  void Forward(const Action& action);
  void Backward(const Action& action, bool reduce);
  at::Tensor Incoming(Mailbox::Kind kind, const Action& action);
  // Passes the output of `action` to the adjacent stage: `step` 1 is the next, -1 the previous.
  void Deliver(Mailbox::Kind kind, const Action& action, int step, at::Tensor tensor);
  int StageOf(const Action& action) const { return placement_.StageAt(rank_, action.chunk); }

  const StagePlacement placement_;
  const int rank_;
  const std::vector<Step> steps_;
  std::vector<bool> reduces_;  // [steps] whether the chunk's gradients are reduced after this step
  size_t next_batch_ = 0;      // all batches before this step are posted
  std::vector<StageWork*> chunks_;
  Mailbox mailbox_;
  Trace* trace_;
};

}  // namespace trireme
