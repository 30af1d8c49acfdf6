// Actions: what a rank of a pipeline can do, and their texts. Plain values; the executor decides what an
// action does to tensors.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

enum class ActionKind {
  // Compute, for one micro batch on one chunk.
  kForward,
  kBackward,        // both gradients at once
  kBackwardInput,   // the gradient of the chunk's input, which the previous stage waits for
  kBackwardWeight,  // the gradient of the chunk's weights, which can wait
  // Messages. Forward messages carry a chunk's output to the next stage, backward messages the gradient of
  // its input to the previous stage. The chunk is always the one on this rank.
  kSendForward,
  kRecvForward,
  kSendBackward,
  kRecvBackward,
  // Parameters and gradients of a chunk that are split over the data-parallel ranks.
  kGatherParameters,
  kFreeParameters,
  kReduceGradients,  // gradients since the last reduction, summed over the data-parallel ranks
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int micro_batch = 0;  // always 0 for actions on parameters and gradients
  int chunk = 0;        // index of this rank's stage
  int peer = -1;        // the other rank of a message, within the pipeline; -1 otherwise
  bool operator==(const Action&) const = default;

  bool is_compute() const { return kind <= ActionKind::kBackwardWeight; }
  bool is_message() const { return kind >= ActionKind::kSendForward && kind <= ActionKind::kRecvBackward; }
  bool is_send() const { return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward; }
  bool makes_input_gradient() const { return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput; }
  bool makes_weight_gradient() const { return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight; }
  // "F3.1" = forward of micro batch 3 on chunk 1; B both gradients, I of the input, W of the weights.
  // "send F3.1 to 2", "recv B3.1 from 2", "gather .1", "free .1", "reduce .1".
  std::string ToText() const;
};

// "forward", "backward_input", …: the names used in reports.
std::string_view NameOf(ActionKind kind);

}  // namespace trireme
