#include "parallel/executor/executor.h"

#include <utility>

#include "core/base/error.h"
#include "core/trace/trace.h"

namespace trireme {
namespace {

// Receive buffers are allocated when a batch is posted: this bounds them.
constexpr size_t kBatchesAhead = 4;

// For each step that computes weight gradients: whether the table reduces its chunk before it computes more.
std::vector<bool> FindReductions(const std::vector<Step>& steps, int chunks) {
  std::vector<bool> reduces(steps.size(), false);
  std::vector<bool> wanted(chunks, false);
  for (size_t i = steps.size(); i-- > 0;) {
    const Action& action = steps[i].front();
    if (action.kind == ActionKind::kReduceGradients) wanted[action.chunk] = true;
    if (!action.makes_weight_gradient()) continue;
    reduces[i] = wanted[action.chunk];
    wanted[action.chunk] = false;
  }
  return reduces;
}

}  // namespace

Executor::Executor(const Schedule& schedule, std::vector<StageWork*> chunks, Communicator& pipeline, Trace* trace)
    : placement_(schedule.placement),
      rank_(pipeline.rank()),
      steps_(schedule.ranks.at(pipeline.rank())),
      reduces_(FindReductions(steps_, schedule.placement.chunks)),
      chunks_(std::move(chunks)),
      mailbox_(pipeline),
      trace_(trace) {
  TRIREME_CHECK(pipeline.size() == placement_.ranks && static_cast<int>(chunks_.size()) == placement_.chunks)
      << "the table has " << placement_.ranks << " ranks with " << placement_.chunks << " chunks, the pipeline "
      << pipeline.size() << " ranks with " << chunks_.size();
}

void Executor::Run() {
  next_batch_ = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    PostBatches(i);
    if (!steps_[i].front().is_message()) Compute(steps_[i].front(), reduces_[i]);
  }
  mailbox_.Drain();
}

// All batches up to `step` and, while compute is busy there, the next few whose tensors to send are ready: a
// batch that waits behind a computation makes its peers wait. Batches stay in the table's order, which alone
// keeps ranks from deadlocking.
void Executor::PostBatches(size_t step) {
  for (; next_batch_ < steps_.size(); ++next_batch_) {
    const Step& batch = steps_[next_batch_];
    if (!batch.front().is_message()) continue;
    if (next_batch_ > step && (mailbox_.under_way() >= kBatchesAhead || !mailbox_.Holds(batch))) return;
    mailbox_.Post(batch, [&](const Action& message) {
      return message.kind == ActionKind::kRecvForward ? chunks_[message.chunk]->EmptyInput(message.micro_batch)
                                                      : chunks_[message.chunk]->EmptyGradient(message.micro_batch);
    });
  }
}

void Executor::Compute(const Action& action, bool reduce) {
  StageWork& stage = *chunks_[action.chunk];
  switch (action.kind) {
    case ActionKind::kForward:
      return Forward(action);
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return Backward(action, reduce);
    case ActionKind::kBackwardWeight: {
      const Span span(trace_, "compute", [&] { return action.ToText(); });
      return stage.BackwardWeight(action.micro_batch, reduce);
    }
    case ActionKind::kGatherParameters:
      return stage.GatherParameters();
    case ActionKind::kFreeParameters:
      return stage.FreeParameters();
    case ActionKind::kReduceGradients:
      return stage.ReduceGradients();
    default:
      TRIREME_CHECK(false) << "a message outside a batch: " << action.ToText();
  }
}

void Executor::Forward(const Action& action) {
  const at::Tensor x =
      placement_.IsFirst(StageOf(action)) ? at::Tensor() : Incoming(Mailbox::Kind::kActivation, action);
  at::Tensor output;
  {
    const Span span(trace_, "compute", [&] { return action.ToText(); });
    output = chunks_[action.chunk]->Forward(action.micro_batch, x);
  }
  if (!placement_.IsLast(StageOf(action))) Deliver(Mailbox::Kind::kActivation, action, 1, std::move(output));
}

void Executor::Backward(const Action& action, bool reduce) {
  const at::Tensor gradient =
      placement_.IsLast(StageOf(action)) ? at::Tensor() : Incoming(Mailbox::Kind::kGradient, action);
  at::Tensor input_gradient;
  {
    const Span span(trace_, "compute", [&] { return action.ToText(); });
    input_gradient = chunks_[action.chunk]->Backward(
        action.micro_batch, gradient, {.put_off_weights = action.kind == ActionKind::kBackwardInput, .reduce = reduce});
  }
  if (!placement_.IsFirst(StageOf(action))) {
    Deliver(Mailbox::Kind::kGradient, action, -1, std::move(input_gradient));
  }
}

at::Tensor Executor::Incoming(Mailbox::Kind kind, const Action& action) {
  const Span span(trace_, "compute", [&] { return "wait for " + action.ToText(); });
  return mailbox_.TakeIn({kind, action.chunk, action.micro_batch});
}

void Executor::Deliver(Mailbox::Kind kind, const Action& action, int step, at::Tensor tensor) {
  const StageSite site = placement_.SiteOf(StageOf(action) + step);
  if (site.rank == rank_) {
    mailbox_.PutIn({kind, site.chunk, action.micro_batch}, std::move(tensor));
  } else {
    mailbox_.PutOut({kind, action.chunk, action.micro_batch}, std::move(tensor));
  }
}

}  // namespace trireme
