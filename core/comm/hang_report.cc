// A stall is a call that some ranks have reached and others have not. Its cause is elsewhere if all ranks
// that are missing from it wait in another stall; otherwise it is a cause itself.
#include "core/comm/hang_report.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

bool Waits(const GroupState& group, double limit_s) {
  return group.waits() && group.oldest.reached_s >= limit_s && group.members.size() > 1;
}

struct Stall {
  const GroupState* group = nullptr;  // as seen by the member that has waited longest
  CallState call;
  std::set<int> arrived;
  std::set<int> missing;
};

std::string SecondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

std::string BytesText(uint64_t bytes) {
  if (bytes == 0) return "";
  if (bytes < 1024) return Concat(" of ", bytes, " B");
  return bytes < (1 << 20) ? Concat(" of ", bytes >> 10, " KB") : Concat(" of ", bytes >> 20, " MB");
}

std::string GroupText(const GroupState& group) { return Concat(group.name, " [", Join(group.members, ","), "]"); }

std::string CallText(const CallState& call, const GroupState& group) {
  return Concat(call.operation, " #", call.sequence, " on ", GroupText(group));
}

bool SameGroup(const GroupState& a, const GroupState& b) { return a.name == b.name && a.members == b.members; }

// The group as `rank` sees it; nullptr if the rank did not answer or does not have it.
const GroupState* View(const std::vector<RankState>& states, int rank, const GroupState& group) {
  if (rank < 0 || rank >= static_cast<int>(states.size())) return nullptr;
  for (const GroupState& view : states[rank].groups) {
    if (SameGroup(view, group)) return &view;
  }
  return nullptr;
}

// Whether a message's other side has posted it, judging by how many that side has posted.
bool PeerHasPosted(const MessageState& message, const GroupState& peer_view, int own_rank) {
  const auto place = std::find(peer_view.members.begin(), peer_view.members.end(), own_rank);
  if (place == peer_view.members.end()) return false;
  const auto& posted = message.sends ? peer_view.received : peer_view.sent;
  const size_t index = place - peer_view.members.begin();
  return index < posted.size() && posted[index] >= message.number;
}

void FindArrivals(const std::vector<RankState>& states, int rank, Stall& stall) {
  stall.arrived.insert(rank);
  if (stall.call.messages.empty()) {
    for (int member : stall.group->members) {
      const GroupState* view = View(states, member, *stall.group);
      const bool arrived = view != nullptr && view->collectives_reached >= stall.call.collective;
      (arrived ? stall.arrived : stall.missing).insert(member);
    }
    return;
  }
  for (const MessageState& message : stall.call.messages) {
    const GroupState* view = View(states, message.peer, *stall.group);
    const bool posted = view != nullptr && PeerHasPosted(message, *view, rank);
    (posted ? stall.arrived : stall.missing).insert(message.peer);
  }
  for (int missing : stall.missing) stall.arrived.erase(missing);
}

// One stall per collective, whichever members see it; one per rank that waits point to point.
std::vector<Stall> FindStalls(const std::vector<RankState>& states, double limit_s) {
  std::vector<Stall> stalls;
  for (const RankState& state : states) {
    for (const GroupState& group : state.groups) {
      if (!Waits(group, limit_s)) continue;
      Stall stall = {&group, group.oldest, {}, {}};
      const auto same = std::find_if(stalls.begin(), stalls.end(), [&](const Stall& other) {
        return SameGroup(*other.group, group) && other.call.messages.empty() && stall.call.messages.empty();
      });
      if (same == stalls.end()) {
        FindArrivals(states, state.rank, stall);
        stalls.push_back(std::move(stall));
      } else if (std::pair(stall.call.collective, -stall.call.reached_s) <
                 std::pair(same->call.collective, -same->call.reached_s)) {
        FindArrivals(states, state.rank, stall);
        *same = std::move(stall);
      }
    }
  }
  return stalls;
}

const GroupState* WaitsIn(const RankState& state, const GroupState& except) {
  const GroupState* longest = nullptr;
  for (const GroupState& group : state.groups) {
    if (!Waits(group, 0) || SameGroup(group, except)) continue;
    if (longest == nullptr || group.oldest.reached_s > longest->oldest.reached_s) longest = &group;
  }
  return longest;
}

// Some missing rank does not itself wait for others, or no rank is missing.
bool IsCause(const Stall& stall, const std::vector<RankState>& states) {
  if (stall.missing.empty()) return true;
  return std::any_of(stall.missing.begin(), stall.missing.end(),
                     [&](int rank) { return WaitsIn(states[rank], *stall.group) == nullptr; });
}

// Ranks meet over MPI while one of them does slow work: writing a checkpoint, reading data. As long as all
// missing ranks answer and wait for no one, they are working, and the limit is longer.
bool IsAtWork(const Stall& stall, const std::vector<RankState>& states, double limit_s) {
  constexpr double kPatience = 5;  // times the limit
  if (stall.group->name != kMpiGroup || stall.missing.empty()) return false;
  if (stall.call.reached_s >= kPatience * limit_s) return false;
  return std::all_of(stall.missing.begin(), stall.missing.end(), [&](int rank) {
    return states[rank].answer == RankState::Answer::kGiven && WaitsIn(states[rank], *stall.group) == nullptr;
  });
}

const GroupState* LatestIssued(const RankState& state) {
  const GroupState* latest = nullptr;
  for (const GroupState& group : state.groups) {
    if (group.latest.sequence == 0) continue;
    if (latest == nullptr || group.latest.issued_s < latest->latest.issued_s) latest = &group;
  }
  return latest;
}

std::string DoingText(const Stall& stall, const std::vector<RankState>& states, int rank) {
  const RankState& state = states[rank];
  switch (state.answer) {
    case RankState::Answer::kGone:
      return "no answer: process gone";
    case RankState::Answer::kSilent:
      return "no answer, but its process is alive";
    case RankState::Answer::kLeft:
      return "has left the job";
    case RankState::Answer::kNeverCame:
      return "never joined the hang watch";
    case RankState::Answer::kGiven:
      break;
  }
  const GroupState* view = View(states, rank, *stall.group);
  const bool collective = stall.call.messages.empty();
  const bool issued = collective && view != nullptr && view->collectives_issued >= stall.call.collective;
  std::string text = issued ? "has issued it, but its stream has not reached it" : "has not issued it";
  if (const GroupState* other = WaitsIn(state, *stall.group)) {
    return text + Concat("; waits for ", SecondsText(other->oldest.reached_s), " in ", CallText(other->oldest, *other));
  }
  if (const GroupState* latest = LatestIssued(state)) {
    return text + Concat("; last issued ", CallText(latest->latest, *latest), " ", SecondsText(latest->latest.issued_s),
                         " ago, ", latest->done >= latest->latest.sequence ? "done" : "not done");
  }
  return text + "; has issued nothing yet";
}

// The members' operations under the same number, if they differ.
std::string DisagreementText(const Stall& stall, const std::vector<RankState>& states) {
  std::set<std::string> names;
  std::string text;
  for (int rank : stall.call.messages.empty() ? stall.arrived : std::set<int>{}) {
    const GroupState* view = View(states, rank, *stall.group);
    for (const CallState* call : {&view->oldest, &view->latest}) {
      if (call->sequence == 0 || call->collective != stall.call.collective) continue;
      names.insert(call->operation);
      text += Concat(text.empty() ? "" : ", ", "rank ", rank, " calls ", call->operation);
      break;
    }
  }
  return names.size() > 1 ? "  the ranks disagree on #" + Concat(stall.call.sequence, ": ", text, "\n") : "";
}

std::string MessagesText(const Stall& stall) {
  std::string text;
  for (const MessageState& message : stall.call.messages) {
    text += Concat(text.empty() ? " (" : ", ", message.sends ? "to" : "from", " rank ", message.peer, " message ",
                   message.number);
  }
  return text.empty() ? "" : text + ")";
}

std::string CauseText(const Stall& stall, const std::vector<RankState>& states) {
  std::string text = Concat(stall.call.operation, " #", stall.call.sequence, BytesText(stall.call.bytes), " on ",
                            GroupText(*stall.group), MessagesText(stall), " has waited ",
                            SecondsText(stall.call.reached_s), "\n  arrived: ", Join(stall.arrived, ","), "\n");
  for (int rank : stall.missing) text += Concat("  missing: rank ", rank, ": ", DoingText(stall, states, rank), "\n");
  if (stall.missing.empty()) text += "  missing: none; the transfer itself is stuck (link or device)\n";
  return text + DisagreementText(stall, states);
}

}  // namespace

bool WaitsLongerThan(const RankState& state, double limit_s) {
  return std::any_of(state.groups.begin(), state.groups.end(),
                     [&](const GroupState& group) { return Waits(group, limit_s); });
}

std::string OwnHangReport(const RankState& state, double limit_s) {
  std::string text;
  for (const GroupState& group : state.groups) {
    if (!Waits(group, limit_s)) continue;
    text += Concat("  ", CallText(group.oldest, group), BytesText(group.oldest.bytes), " has waited ",
                   SecondsText(group.oldest.reached_s), "\n");
  }
  if (text.empty()) return "";
  return Concat("communication hangs on rank ", state.rank,
                "; rank 0, which gathers the reports, does not answer: is it stopped, dead or unreachable?\n", text);
}

HangReport MakeHangReport(const std::vector<RankState>& states, double limit_s) {
  const auto find = [&](double at_least_s) {
    std::vector<Stall> stalls = FindStalls(states, at_least_s);
    std::erase_if(stalls, [&](const Stall& stall) { return IsAtWork(stall, states, limit_s); });
    return stalls;
  };
  if (find(limit_s).empty()) return {};
  // Ranks reach their calls at slightly different times: once one is over the limit, others close to it count
  // too.
  std::vector<Stall> stalls = find(limit_s / 2);
  std::stable_sort(stalls.begin(), stalls.end(), [&](const Stall& a, const Stall& b) {
    return std::pair(!IsCause(a, states), -a.call.reached_s) < std::pair(!IsCause(b, states), -b.call.reached_s);
  });
  HangReport report;
  report.cause = CallText(stalls.front().call, *stalls.front().group);
  report.text = "communication hangs: ";
  if (!IsCause(stalls.front(), states)) {
    report.text += "deadlock: ranks wait for each other; they issue calls in different orders\n";
    for (const Stall& stall : stalls) report.text += CauseText(stall, states);
    return report;
  }
  bool follows = false;
  for (const Stall& stall : stalls) {
    if (IsCause(stall, states)) {
      report.text += CauseText(stall, states);
      continue;
    }
    if (!follows) report.text += "  blocked by it:\n";
    follows = true;
    report.text += Concat("    ", CallText(stall.call, *stall.group), " for ", SecondsText(stall.call.reached_s),
                          ", missing ", Join(stall.missing, ","), "\n");
  }
  return report;
}

}  // namespace trireme
