#include "core/comm/ledger.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace trireme {
int Ledger::AddGroup(const std::string& name, const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_.emplace_back();
  group.state.name = name;
  group.state.members = members;
  group.state.sent.resize(members.size());
  group.state.received.resize(members.size());
  return static_cast<int>(groups_.size()) - 1;
}

void Ledger::Issued(int number, uint64_t sequence, const char* operation, uint64_t bytes,
                    std::span<const LedgerMessage> messages) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[number];
  TRIREME_CHECK(sequence == group.state.issued + 1)
      << operation << " #" << sequence << " on group " << group.state.name << " after #" << group.state.issued;
  group.state.issued = sequence;
  Call call;
  call.sequence = sequence;
  call.operation = operation;
  call.bytes = bytes;
  call.issued = Clock::now();
  call.collective = messages.empty() ? ++group.state.collectives_issued : 0;
  for (const LedgerMessage& message : messages) {
    uint64_t& count = (message.sends ? group.state.sent : group.state.received)[message.peer];
    ++count;
    if (call.messages == kMessages) continue;
    call.message[call.messages++] = {group.state.members[message.peer], message.sends, count};
  }
  group.pending.push_back(call);
  group.latest = call;
}

void Ledger::Reached(int number, uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  MarkReached(groups_[number], sequence);
}

void Ledger::Done(int number, uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[number];
  MarkReached(group, sequence);
  while (!group.pending.empty() && group.pending.front().sequence <= sequence) group.pending.pop_front();
  group.state.done = std::max(group.state.done, sequence);
}

// A stream works in order: if a call is reached, so are all before it.
void Ledger::MarkReached(Group& group, uint64_t sequence) {
  for (Call& call : group.pending) {
    if (call.sequence > sequence) return;
    if (call.reached) continue;
    call.reached = true;
    call.reached_at = Clock::now();
    group.state.collectives_reached = std::max(group.state.collectives_reached, call.collective);
  }
}

RankState Ledger::Snapshot(int rank) const {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  RankState result = {.rank = rank};
  for (const Group& group : groups_) {
    GroupState& state = result.groups.emplace_back(group.state);
    if (!group.pending.empty()) state.oldest = Describe(group.pending.front(), now);
    if (group.latest.sequence != 0) state.latest = Describe(group.latest, now);
  }
  return result;
}

CallState Ledger::Describe(const Call& call, Clock::time_point now) {
  return {.sequence = call.sequence,
          .operation = call.operation,
          .bytes = call.bytes,
          .collective = call.collective,
          .issued_s = ToSeconds(now - call.issued),
          .reached_s = call.reached ? ToSeconds(now - call.reached_at) : -1,
          .messages = {call.message.begin(), call.message.begin() + call.messages}};
}

}  // namespace trireme
