// Ledger: what this rank has issued, reached and finished on each of its groups, for the hang watch. The
// issuing thread writes (tens of nanoseconds), the watch reads. It waits for nothing and decides
// nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// One message of a point-to-point call. Ranks count messages, since their call counts may differ.
struct LedgerMessage {
  int peer = 0;        // rank in the group
  bool sends = false;  // to the peer; otherwise from it
};

struct MessageState {
  int peer = 0;  // rank in the world
  bool sends = false;
  uint64_t number = 0;  // counts messages in this direction between the two ranks, from 1
};

struct CallState {
  uint64_t sequence = 0;  // from 1; 0: no such call
  std::string operation;
  uint64_t bytes = 0;
  uint64_t collective = 0;  // counts the group's collectives, from 1; 0: point to point
  double issued_s = 0;      // seconds since it was issued
  double reached_s = -1;    // seconds since the stream reached it; below 0: not yet
  std::vector<MessageState> messages = {};
};

struct GroupState {
  std::string name;
  std::vector<int> members;  // world ranks
  uint64_t issued = 0;       // the latest call's number
  uint64_t done = 0;
  // Ranks compare these: with point-to-point calls in between, a collective's sequence number differs between
  // ranks.
  uint64_t collectives_issued = 0;
  uint64_t collectives_reached = 0;
  CallState oldest;                      // the oldest call that is not done
  CallState latest;                      // the latest that was issued
  std::vector<uint64_t> sent, received;  // messages posted to and from each member

  bool waits() const { return oldest.sequence != 0 && oldest.reached_s >= 0; }
};

struct RankState {
  enum class Answer { kGiven, kSilent, kGone, kLeft, kNeverCame };
  int rank = 0;
  Answer answer = Answer::kGiven;
  std::vector<GroupState> groups = {};
};

class Ledger {
 public:
  // Any thread may call any of these. Sequence numbers of a group go up by one, from 1.
  int AddGroup(const std::string& name, const std::vector<int>& members);
  // `operation` is a literal. `messages`: for point to point only.
  void Issued(int group, uint64_t sequence, const char* operation, uint64_t bytes = 0,
              std::span<const LedgerMessage> messages = {});
  // The stream has reached the call: from now on it waits for its peers only.
  void Reached(int group, uint64_t sequence);
  void Done(int group, uint64_t sequence);

  RankState Snapshot(int rank) const;

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr size_t kMessages = 4;  // per call: both neighbours, both directions

  struct Call {
    uint64_t sequence = 0;
    const char* operation = "";
    uint64_t bytes = 0;
    uint64_t collective = 0;
    Clock::time_point issued;
    Clock::time_point reached_at;
    bool reached = false;
    uint8_t messages = 0;
    std::array<MessageState, kMessages> message;
  };

  struct Group {
    GroupState state;          // without its calls, which are below
    std::deque<Call> pending;  // oldest first
    Call latest;
  };

  static void MarkReached(Group& group, uint64_t sequence);
  static CallState Describe(const Call& call, Clock::time_point now);

  mutable std::mutex mutex_;
  std::deque<Group> groups_;
};

}  // namespace trireme
