// The half of the verifier that reads one rank's steps in order and checks that each is allowed there.
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/schedule/verify.h"

namespace trireme {
namespace {

using Fault = std::optional<std::string>;

struct Passage {  // state of one micro batch on one chunk
  bool input_received = false;
  bool forward = false;
  bool output_sent = false;
  bool gradient_received = false;
  bool input_gradient = false;
  bool gradient_sent = false;
  bool weight_gradient = false;
};

struct ChunkParameters {
  bool gathered = false;
  int weight_gradients = 0;  // so far, of all micro batches
  int unreduced = 0;         // of these, since the last reduction
};

class RankReader {
 public:
  RankReader(const Schedule& schedule, int rank)
      : placement_(schedule.placement),
        micro_batches_(schedule.micro_batches),
        zero_(schedule.zero),
        forward_only_(schedule.forward_only),
        rank_(rank),
        passages_(placement_.chunks * micro_batches_),
        parameters_(placement_.chunks) {}

  Fault Read(const Step& step) {
    if (Fault fault = WrongForm(step)) return fault;
    for (const Action& action : step) {
      if (Fault fault = ReadAction(action)) return action.ToText() + ": " + *fault;
    }
    return std::nullopt;
  }

  Fault AtEnd() const {
    for (int chunk = 0; chunk < placement_.chunks; ++chunk) {
      for (int i = 0; i < micro_batches_; ++i) {
        if (Fault fault = Unfinished(chunk, i)) return Concat("micro batch ", i, ", chunk ", chunk, ": ", *fault);
      }
      const ChunkParameters& parameters = parameters_[chunk];
      if (parameters.gathered) return Concat("parameters of chunk ", chunk, " are never freed");
      if (zero_ && parameters.unreduced > 0) return Concat("gradients of chunk ", chunk, " are not reduced");
    }
    return std::nullopt;
  }

 private:
  static Fault If(bool wrong, const char* text) { return wrong ? Fault(text) : std::nullopt; }

  Fault WrongForm(const Step& step) const {
    if (step.empty()) return "an empty step";
    for (size_t i = 0; i < step.size(); ++i) {
      const Action& action = step[i];
      if (step.size() > 1 && !action.is_message()) return action.ToText() + ": a batch holds messages only";
      if (action.micro_batch < 0 || action.micro_batch >= micro_batches_ || action.chunk < 0 ||
          action.chunk >= placement_.chunks) {
        return Concat(action.ToText(), ": no such micro batch or chunk; there are ", micro_batches_, " and ",
                      placement_.chunks);
      }
      for (size_t j = 0; j < i; ++j) {
        if (step[j].peer == action.peer && step[j].is_send() == action.is_send()) {
          return Concat(StepText(step), ": two messages ", action.is_send() ? "to" : "from", " rank ", action.peer,
                        " in one batch; only their order could tell them apart");
        }
      }
    }
    return std::nullopt;
  }

  Fault ReadAction(const Action& action) {
    if (action.is_message()) return ReadMessage(action);
    if (action.is_compute()) return ReadCompute(action);
    return ReadParameters(action);
  }

  Passage& At(int chunk, int micro_batch) { return passages_[chunk * micro_batches_ + micro_batch]; }
  int StageOf(const Action& action) const { return placement_.StageAt(rank_, action.chunk); }

  // Whether an adjacent stage is on this rank, so that no message is needed.
  bool IsHere(int stage) const { return placement_.SiteOf(stage).rank == rank_; }

  bool InputIsThere(const Action& action) {
    const int stage = StageOf(action);
    if (placement_.IsFirst(stage)) return true;
    if (!IsHere(stage - 1)) return At(action.chunk, action.micro_batch).input_received;
    return At(placement_.SiteOf(stage - 1).chunk, action.micro_batch).forward;
  }

  bool GradientIsThere(const Action& action) {
    const int stage = StageOf(action);
    if (placement_.IsLast(stage)) return true;
    if (!IsHere(stage + 1)) return At(action.chunk, action.micro_batch).gradient_received;
    return At(placement_.SiteOf(stage + 1).chunk, action.micro_batch).input_gradient;
  }

  Fault ReadCompute(const Action& action) {
    Passage& passage = At(action.chunk, action.micro_batch);
    ChunkParameters& parameters = parameters_[action.chunk];
    if (zero_ == 3 && !parameters.gathered) return "its parameters are not gathered";
    if (action.kind == ActionKind::kForward) {
      if (passage.forward) return "runs twice";
      if (!InputIsThere(action)) return "its input is not available";
      passage.forward = true;
    }
    if (action.makes_input_gradient()) {
      if (passage.input_gradient) return "runs twice";
      if (!passage.forward) return "comes before its forward";
      if (!GradientIsThere(action)) return "the gradient of its output is not available";
      passage.input_gradient = true;
    }
    if (action.makes_weight_gradient()) {
      if (passage.weight_gradient) return "runs twice";
      if (!passage.input_gradient) return "comes before its input gradient";
      passage.weight_gradient = true;
      if (zero_ && *zero_ >= 2 && parameters.unreduced > 0) return "the previous gradients are not reduced";
      ++parameters.weight_gradients;
      ++parameters.unreduced;
    }
    return std::nullopt;
  }

  Fault ReadMessage(const Action& action) {
    Passage& passage = At(action.chunk, action.micro_batch);
    const bool towards_next = action.kind == ActionKind::kSendForward || action.kind == ActionKind::kRecvBackward;
    const int other = StageOf(action) + (towards_next ? 1 : -1);
    if (other < 0 || other >= placement_.stages()) return "there is no stage at its other end";
    const int peer = placement_.SiteOf(other).rank;
    if (peer == rank_) return "its other end is on this rank";
    if (peer != action.peer) return Concat("its other end, stage ", other, ", is on rank ", peer);
    switch (action.kind) {
      case ActionKind::kSendForward:
        return Send(passage.forward, passage.output_sent);
      case ActionKind::kSendBackward:
        return Send(passage.input_gradient, passage.gradient_sent);
      case ActionKind::kRecvForward:
        return Receive(passage.input_received);
      default:
        return Receive(passage.gradient_received);
    }
  }

  static Fault Send(bool made, bool& sent) {
    if (!made) return "comes before what it sends is computed";
    return If(std::exchange(sent, true), "is sent twice");
  }

  static Fault Receive(bool& received) { return If(std::exchange(received, true), "is received twice"); }

  Fault ReadParameters(const Action& action) {
    ChunkParameters& parameters = parameters_[action.chunk];
    if (!zero_) return "the table is marked as having no parameter actions";
    if (action.kind == ActionKind::kReduceGradients) {
      if (parameters.unreduced == 0) return "there is nothing to reduce";
      if (*zero_ < 2 && parameters.weight_gradients < micro_batches_) return "comes before the last weight gradient";
      parameters.unreduced = 0;
      return std::nullopt;
    }
    if (*zero_ < 3) return Concat("parameters are not sharded with zero ", *zero_);
    const bool gather = action.kind == ActionKind::kGatherParameters;
    const bool was = std::exchange(parameters.gathered, gather);
    return If(was == gather, gather ? "they are already gathered" : "they are not gathered");
  }

  Fault Unfinished(int chunk, int micro_batch) const {
    const Passage& passage = passages_[chunk * micro_batches_ + micro_batch];
    const int stage = placement_.StageAt(rank_, chunk);
    if (!passage.forward) return "has no forward";
    const bool sends_output = !placement_.IsLast(stage) && !IsHere(stage + 1);
    if (sends_output && !passage.output_sent) return "its output is never sent";
    if (forward_only_) return If(passage.input_gradient, "has a gradient in a forward-only table");
    if (!passage.input_gradient) return "has no input gradient";
    if (!passage.weight_gradient) return "has no weight gradient";
    const bool sends_gradient = !placement_.IsFirst(stage) && !IsHere(stage - 1);
    return If(sends_gradient && !passage.gradient_sent, "its gradient is never sent");
  }

  const StagePlacement& placement_;
  const int micro_batches_;
  const std::optional<int> zero_;
  const bool forward_only_;
  const int rank_;
  std::vector<Passage> passages_;  // [chunks, micro batches]
  std::vector<ChunkParameters> parameters_;
};

}  // namespace

std::optional<std::string> FindRankFault(const Schedule& schedule, int rank) {
  RankReader reader(schedule, rank);
  const std::vector<Step>& steps = schedule.ranks[rank];
  for (size_t i = 0; i < steps.size(); ++i) {
    if (Fault fault = reader.Read(steps[i])) return Concat("rank ", rank, ", step ", i, ", ", *fault);
  }
  if (Fault fault = reader.AtEnd()) return Concat("rank ", rank, ": ", *fault);
  return std::nullopt;
}

}  // namespace trireme
