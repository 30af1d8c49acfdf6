// The texts of actions.
#include "parallel/schedule/actions.h"

#include "core/base/error.h"

namespace trireme {

std::string_view NameOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kBackwardInput:
      return "backward_input";
    case ActionKind::kBackwardWeight:
      return "backward_weight";
    case ActionKind::kSendForward:
      return "send_forward";
    case ActionKind::kRecvForward:
      return "recv_forward";
    case ActionKind::kSendBackward:
      return "send_backward";
    case ActionKind::kRecvBackward:
      return "recv_backward";
    case ActionKind::kGatherParameters:
      return "gather_parameters";
    case ActionKind::kFreeParameters:
      return "free_parameters";
    case ActionKind::kReduceGradients:
      return "reduce_gradients";
  }
  return "unknown";
}

std::string Action::ToText() const {
  const std::string where = Concat(micro_batch, ".", chunk);
  switch (kind) {
    case ActionKind::kForward:
      return "F" + where;
    case ActionKind::kBackward:
      return "B" + where;
    case ActionKind::kBackwardInput:
      return "I" + where;
    case ActionKind::kBackwardWeight:
      return "W" + where;
    case ActionKind::kSendForward:
      return Concat("send F", where, " to ", peer);
    case ActionKind::kRecvForward:
      return Concat("recv F", where, " from ", peer);
    case ActionKind::kSendBackward:
      return Concat("send B", where, " to ", peer);
    case ActionKind::kRecvBackward:
      return Concat("recv B", where, " from ", peer);
    case ActionKind::kGatherParameters:
      return Concat("gather .", chunk);
    case ActionKind::kFreeParameters:
      return Concat("free .", chunk);
    case ActionKind::kReduceGradients:
      return Concat("reduce .", chunk);
  }
  return "unknown";
}

}  // namespace trireme
