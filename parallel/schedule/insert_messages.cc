// Plays the compute order with unit times and places every message in one sequence of events shared by all
// ranks, between the end of its producer and the start of its consumer. A rank's table is its part of that
// sequence; hence the first event that is not done always finds both its ends ready, and nothing can hang.
// Messages of a rank that fall on the same moment become one batch, which only posts them earlier.
#include "parallel/schedule/insert_messages.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

// Moments per unit of time, so that a message can be placed within its window.
constexpr int kMoments = 4;

// forward 1, input gradient 1, weight gradient 1, both 2
int DurationOf(const Action& action) { return action.kind == ActionKind::kBackward ? 2 * kMoments : kMoments; }

struct Event {
  int time = 0;  // for compute: its start
  Action action;
};

struct Span {
  int start = kNever;
  int end = kNever;
  static constexpr int kNever = -1;
};

class Player {
 public:
  explicit Player(const ComputeOrder& order)
      : order_(order),
        placement_(order.placement),
        forwards_(placement_.stages() * order.micro_batches),
        gradients_(placement_.stages() * order.micro_batches),
        next_(placement_.ranks, 0),
        free_at_(placement_.ranks, 0),
        compute_(placement_.ranks),
        messages_(placement_.ranks) {}

  void Play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < placement_.ranks; ++rank) {
        while (PlayNext(rank)) moved = true;
      }
    }
    for (int rank = 0; rank < placement_.ranks; ++rank) CheckDone(rank);
    for (int stage = 0; stage + 1 < placement_.stages(); ++stage) {
      for (int i = 0; i < order_.micro_batches; ++i) {
        AddMessage(stage, stage + 1, i, At(forwards_, stage, i), At(forwards_, stage + 1, i));
        AddMessage(stage + 1, stage, i, At(gradients_, stage + 1, i), At(gradients_, stage, i));
      }
    }
  }

  // Messages come before the compute that starts at the same moment: it may need them.
  std::vector<Event> EventsOf(int rank) {
    std::vector<Event> messages = std::move(messages_[rank]);
    std::stable_sort(messages.begin(), messages.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
    std::vector<Event> events;
    std::merge(messages.begin(), messages.end(), compute_[rank].begin(), compute_[rank].end(),
               std::back_inserter(events), [](const Event& a, const Event& b) { return a.time < b.time; });
    return events;
  }

 private:
  Span& At(std::vector<Span>& spans, int stage, int micro_batch) {
    return spans[stage * order_.micro_batches + micro_batch];
  }

  // When the action's input from other compute is available, or kNever if that has not been played yet.
  int InputAt(int rank, const Action& action) {
    const int stage = placement_.StageAt(rank, action.chunk);
    if (action.kind == ActionKind::kForward) {
      return placement_.IsFirst(stage) ? 0 : At(forwards_, stage - 1, action.micro_batch).end;
    }
    if (action.kind == ActionKind::kBackwardWeight) return At(gradients_, stage, action.micro_batch).end;
    return placement_.IsLast(stage) ? At(forwards_, stage, action.micro_batch).end
                                    : At(gradients_, stage + 1, action.micro_batch).end;
  }

  bool PlayNext(int rank) {
    if (next_[rank] == order_.ranks[rank].size()) return false;
    const Action& action = order_.ranks[rank][next_[rank]];
    const int input_at = InputAt(rank, action);
    if (input_at == Span::kNever) return false;
    const int start = std::max(free_at_[rank], input_at);
    const Span span{start, start + DurationOf(action)};
    compute_[rank].push_back({start, action});
    free_at_[rank] = span.end;
    ++next_[rank];
    const int stage = placement_.StageAt(rank, action.chunk);
    if (action.kind == ActionKind::kForward) At(forwards_, stage, action.micro_batch) = span;
    if (action.makes_input_gradient()) At(gradients_, stage, action.micro_batch) = span;
    return true;
  }

  // None for a gradient that the order does not compute. Placed a quarter into its window: a message at
  // either edge delays the rank's other messages as soon as real times differ slightly from unit times.
  void AddMessage(int from_stage, int to_stage, int micro_batch, const Span& producer, const Span& consumer) {
    const StageSite from = placement_.SiteOf(from_stage);
    const StageSite to = placement_.SiteOf(to_stage);
    if (from.rank == to.rank || producer.start == Span::kNever) return;
    const int time = producer.end + (consumer.start - producer.end) / 4;
    const bool forward = to_stage > from_stage;
    const ActionKind send = forward ? ActionKind::kSendForward : ActionKind::kSendBackward;
    const ActionKind recv = forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward;
    messages_[from.rank].push_back({time, {send, micro_batch, from.chunk, to.rank}});
    messages_[to.rank].push_back({time, {recv, micro_batch, to.chunk, from.rank}});
  }

  void CheckDone(int rank) const {
    if (next_[rank] == order_.ranks[rank].size()) return;
    const Action& action = order_.ranks[rank][next_[rank]];
    throw RuntimeError("compute order cannot be played: rank ", rank, " waits at ", action.ToText(), ", number ",
                       next_[rank], " of its ", order_.ranks[rank].size(), " actions, whose input is never computed");
  }

  const ComputeOrder& order_;
  const StagePlacement& placement_;
  std::vector<Span> forwards_;                // [stages, micro batches]
  std::vector<Span> gradients_;               // [stages, micro batches]
  std::vector<size_t> next_;                  // [ranks] the first action not yet played
  std::vector<int> free_at_;                  // [ranks]
  std::vector<std::vector<Event>> compute_;   // [ranks]
  std::vector<std::vector<Event>> messages_;  // [ranks]
};

bool SharesBatch(const Step& batch, const Action& message) {
  if (!batch.front().is_message()) return false;
  return std::none_of(batch.begin(), batch.end(), [&](const Action& other) {
    return other.peer == message.peer && other.is_send() == message.is_send();
  });
}

std::vector<Step> IntoSteps(const std::vector<Event>& events) {
  std::vector<Step> steps;
  int time = Span::kNever;
  for (const Event& event : events) {
    const bool joins = event.action.is_message() && event.time == time && SharesBatch(steps.back(), event.action);
    if (joins) {
      steps.back().push_back(event.action);
    } else {
      steps.push_back({event.action});
    }
    time = event.time;
  }
  return steps;
}

}  // namespace

Schedule InsertMessages(const std::string& name, const ComputeOrder& order) {
  Player player(order);
  player.Play();
  Schedule schedule{.name = name,
                    .placement = order.placement,
                    .micro_batches = order.micro_batches,
                    .zero = std::nullopt,
                    .ranks = {}};
  for (int rank = 0; rank < order.placement.ranks; ++rank) {
    schedule.ranks.push_back(IntoSteps(player.EventsOf(rank)));
  }
  return schedule;
}

}  // namespace trireme
