// Advances every rank's two queues as far as known times allow, until all times are known.
#include "parallel/schedule/simulate.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

constexpr double kUnknown = -1;

// A time for each direction, stage and micro batch.
class TimeTable {
 public:
  TimeTable(int stages, int micro_batches)
      : stages_(stages), micro_batches_(micro_batches), times_(2 * stages * micro_batches, kUnknown) {}
  double& At(bool forward, int stage, int micro_batch) {
    return times_[((forward ? stages_ : 0) + stage) * micro_batches_ + micro_batch];
  }

 private:
  int stages_;
  int micro_batches_;
  std::vector<double> times_;
};

bool IsForward(const Action& action) {
  return action.kind == ActionKind::kForward || action.kind == ActionKind::kSendForward ||
         action.kind == ActionKind::kRecvForward;
}

class Simulation {
 public:
  Simulation(const Schedule& schedule, const std::vector<Durations>& durations)
      : schedule_(schedule),
        placement_(schedule.placement),
        durations_(durations),
        made_(placement_.stages(), schedule.micro_batches),
        arrived_(placement_.stages(), schedule.micro_batches),
        send_posted_(placement_.stages(), schedule.micro_batches),
        recv_posted_(placement_.stages(), schedule.micro_batches),
        queues_(placement_.ranks) {
    timeline_.ranks.resize(placement_.ranks);
  }

  Timeline Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < placement_.ranks; ++rank) {
        while (Advance(rank)) moved = true;
      }
    }
    for (int rank = 0; rank < placement_.ranks; ++rank) {
      const size_t steps = schedule_.ranks[rank].size();
      TRIREME_CHECK(queues_[rank].compute_at == steps && queues_[rank].message_at == steps)
          << "rank " << rank << " of schedule " << schedule_.name << " never ends; was the table verified?";
    }
    return std::move(timeline_);
  }

 private:
  struct Queues {
    size_t compute_at = 0;  // the step whose compute comes next
    double compute_free = 0;
    size_t message_at = 0;  // the step whose batch comes next
    double message_free = 0;
  };

  bool Advance(int rank) {
    const bool computed = AdvanceCompute(rank);
    return AdvanceMessages(rank) || computed;
  }

  double DurationOf(int rank, const Action& action) const {
    const Durations& durations = durations_[static_cast<size_t>(placement_.StageAt(rank, action.chunk))];
    switch (action.kind) {
      case ActionKind::kForward:
        return durations.forward;
      case ActionKind::kBackward:
        return durations.backward_input + durations.backward_weight;
      case ActionKind::kBackwardInput:
        return durations.backward_input;
      default:
        return durations.backward_weight;
    }
  }

  // When the action's input from another stage is available. Weight gradients need none: they follow their
  // input gradient on the same queue.
  double InputAt(int rank, const Action& action) {
    if (action.kind == ActionKind::kBackwardWeight) return 0;
    const bool forward = IsForward(action);
    const int stage = placement_.StageAt(rank, action.chunk);
    if (forward ? placement_.IsFirst(stage) : placement_.IsLast(stage)) return 0;
    const int from = forward ? stage - 1 : stage + 1;
    const bool here = placement_.SiteOf(from).rank == rank;
    return here ? made_.At(forward, from, action.micro_batch) : arrived_.At(forward, stage, action.micro_batch);
  }

  bool AdvanceCompute(int rank) {
    Queues& queues = queues_[rank];
    const std::vector<Step>& steps = schedule_.ranks[rank];
    while (queues.compute_at < steps.size() && !steps[queues.compute_at].front().is_compute()) ++queues.compute_at;
    if (queues.compute_at == steps.size()) return false;
    const Action& action = steps[queues.compute_at].front();
    const double input_at = InputAt(rank, action);
    if (input_at == kUnknown) return false;
    const double start = std::max(queues.compute_free, input_at);
    queues.compute_free = start + DurationOf(rank, action);
    timeline_.ranks[rank].compute.push_back({action, start, queues.compute_free});
    if (action.kind != ActionKind::kBackwardWeight) {
      made_.At(IsForward(action), placement_.StageAt(rank, action.chunk), action.micro_batch) = queues.compute_free;
    }
    ++queues.compute_at;
    return true;
  }

  // Both ends identify a message by the stage that receives it.
  int ReceivingStage(int rank, const Action& message) const {
    const int stage = placement_.StageAt(rank, message.chunk);
    return message.is_send() ? stage + (IsForward(message) ? 1 : -1) : stage;
  }

  // False while something that the batch sends is not computed.
  bool Post(int rank, const Step& batch) {
    double posted = queues_[rank].message_free;
    for (const Action& message : batch) {
      if (!message.is_send()) continue;
      const double made = made_.At(IsForward(message), placement_.StageAt(rank, message.chunk), message.micro_batch);
      if (made == kUnknown) return false;
      posted = std::max(posted, made);
    }
    for (const Action& message : batch) {
      TimeTable& table = message.is_send() ? send_posted_ : recv_posted_;
      table.At(IsForward(message), ReceivingStage(rank, message), message.micro_batch) = posted;
    }
    return true;
  }

  // When both ends are posted, or kUnknown.
  double MeetsAt(int rank, const Action& message) {
    const int stage = ReceivingStage(rank, message);
    const double send = send_posted_.At(IsForward(message), stage, message.micro_batch);
    const double recv = recv_posted_.At(IsForward(message), stage, message.micro_batch);
    return send == kUnknown || recv == kUnknown ? kUnknown : std::max(send, recv);
  }

  double MessageTime(int rank, const Action& message) const {
    return durations_[static_cast<size_t>(ReceivingStage(rank, message))].message;
  }

  bool AdvanceMessages(int rank) {
    Queues& queues = queues_[rank];
    const std::vector<Step>& steps = schedule_.ranks[rank];
    while (queues.message_at < steps.size() && !steps[queues.message_at].front().is_message()) ++queues.message_at;
    if (queues.message_at == steps.size()) return false;
    const Step& batch = steps[queues.message_at];
    if (!Post(rank, batch)) return false;
    double end = 0;
    for (const Action& message : batch) {
      const double meets_at = MeetsAt(rank, message);
      if (meets_at == kUnknown) return false;
      end = std::max(end, meets_at + MessageTime(rank, message));
    }
    for (const Action& message : batch) {
      const double start = MeetsAt(rank, message);
      timeline_.ranks[rank].messages.push_back({message, start, start + MessageTime(rank, message)});
      if (message.is_send()) continue;
      arrived_.At(IsForward(message), ReceivingStage(rank, message), message.micro_batch) = end;
    }
    queues.message_free = end;
    ++queues.message_at;
    return true;
  }

  const Schedule& schedule_;
  const StagePlacement& placement_;
  const std::vector<Durations>& durations_;  // of each stage
  TimeTable made_;                           // by the stage that computed it
  TimeTable arrived_;                        // by the stage that received it
  TimeTable send_posted_;                    // by the stage that receives
  TimeTable recv_posted_;                    // by the stage that receives
  std::vector<Queues> queues_;
  Timeline timeline_;
};

void CheckDurations(const Durations& durations) {
  if (durations.forward <= 0 || durations.backward_input <= 0 || durations.backward_weight <= 0 ||
      durations.message < 0) {
    throw InputError("durations forward ", durations.forward, ", input gradient ", durations.backward_input,
                     ", weight gradient ", durations.backward_weight, ", message ", durations.message,
                     "; wanted compute above 0 and messages not below 0");
  }
}

void Measure(RankTimeline& rank, double end) {
  double busy = 0;
  int live = 0;
  for (const TimedAction& timed : rank.compute) {
    busy += timed.end - timed.start;
    if (timed.action.kind == ActionKind::kForward) rank.peak_live = std::max(rank.peak_live, ++live);
    if (timed.action.makes_weight_gradient()) --live;
  }
  rank.bubble_fraction = end > 0 ? 1 - busy / end : 0;
}

}  // namespace

Timeline Simulate(const Schedule& schedule, const Durations& durations) {
  return SimulateStages(schedule, std::vector<Durations>(static_cast<size_t>(schedule.placement.stages()), durations));
}

Timeline SimulateStages(const Schedule& schedule, const std::vector<Durations>& of_stage) {
  TRIREME_CHECK(of_stage.size() == static_cast<size_t>(schedule.placement.stages()))
      << of_stage.size() << " durations for " << schedule.placement.stages() << " stages";
  for (const Durations& durations : of_stage) CheckDurations(durations);
  Timeline timeline = Simulation(schedule, of_stage).Run();
  timeline.chunks = schedule.placement.chunks;
  const char* batches = schedule.micro_batches == 1 ? " micro batch" : " micro batches";
  timeline.title =
      Concat(schedule.name, ", ", Counted(schedule.placement.ranks, "rank"), ", ", schedule.micro_batches, batches);
  for (const RankTimeline& rank : timeline.ranks) timeline.end = std::max(timeline.end, rank.compute.back().end);
  for (RankTimeline& rank : timeline.ranks) Measure(rank, timeline.end);
  return timeline;
}

}  // namespace trireme
