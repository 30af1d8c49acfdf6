// The half of the verifier that plays the table between ranks, by rendezvous: a rank stays at its step until
// every message of it has met its other end.
#include <vector>

#include "core/base/error.h"
#include "parallel/schedule/verify.h"

namespace trireme {
namespace {

class RendezvousGame {
 public:
  explicit RendezvousGame(const Schedule& schedule)
      : schedule_(schedule),
        ranks_(schedule.placement.ranks),
        at_(ranks_, 0),
        open_(ranks_, 0),
        sends_(ranks_ * ranks_, nullptr),
        recvs_(ranks_ * ranks_, nullptr) {}

  std::optional<std::string> Play() {
    for (int rank = 0; rank < ranks_; ++rank) Enter(rank);
    while (!ready_.empty() && !mismatch_) {
      const int rank = ready_.back();
      ready_.pop_back();
      ++at_[rank];
      Enter(rank);
    }
    if (mismatch_) return mismatch_;
    return Deadlock();
  }

 private:
  // Runs what needs no other rank, then posts the next batch, if any. A batch holds one message per peer and
  // direction and completes before the next is posted: one slot per pair is enough.
  void Enter(int rank) {
    const std::vector<Step>& steps = schedule_.ranks[rank];
    while (at_[rank] < steps.size() && !steps[at_[rank]].front().is_message()) ++at_[rank];
    if (at_[rank] == steps.size()) return;
    const Step& batch = steps[at_[rank]];
    open_[rank] = static_cast<int>(batch.size());
    for (const Action& message : batch) {
      const int from = message.is_send() ? rank : message.peer;
      const int to = message.is_send() ? message.peer : rank;
      (message.is_send() ? sends_ : recvs_)[from * ranks_ + to] = &message;
      Meet(from, to);
    }
  }

  void Meet(int from, int to) {
    const Action*& send = sends_[from * ranks_ + to];
    const Action*& recv = recvs_[from * ranks_ + to];
    if (!send || !recv || mismatch_) return;
    if (!SameMessage(from, *send, to, *recv)) {
      mismatch_ = Concat("messages from rank ", from, " to rank ", to, " do not match in order: rank ", from,
                         " at step ", at_[from], " has '", send->ToText(), "', rank ", to, " at step ", at_[to],
                         " has '", recv->ToText(), "'");
      return;
    }
    send = recv = nullptr;
    for (int rank : {from, to}) {
      if (--open_[rank] == 0) ready_.push_back(rank);
    }
  }

  bool SameMessage(int from, const Action& send, int to, const Action& recv) const {
    const bool forward = send.kind == ActionKind::kSendForward;
    const int from_stage = schedule_.placement.StageAt(from, send.chunk);
    const int to_stage = schedule_.placement.StageAt(to, recv.chunk);
    return send.micro_batch == recv.micro_batch && to_stage == from_stage + (forward ? 1 : -1) &&
           recv.kind == (forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward);
  }

  std::optional<std::string> Deadlock() const {
    std::string waiting;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int peer = 0; peer < ranks_; ++peer) {
        for (const Action* message : {sends_[rank * ranks_ + peer], recvs_[peer * ranks_ + rank]}) {
          if (!message) continue;
          waiting += Concat("; rank ", rank, " at step ", at_[rank], " waits for rank ", peer, " ('", message->ToText(),
                            "'), which ", WhereIs(peer));
        }
      }
    }
    if (waiting.empty()) return std::nullopt;
    return "deadlock" + waiting;
  }

  std::string WhereIs(int rank) const {
    if (at_[rank] == schedule_.ranks[rank].size()) return "has ended";
    return Concat("is at step ", at_[rank], " ", StepText(schedule_.ranks[rank][at_[rank]]));
  }

  const Schedule& schedule_;
  const int ranks_;
  std::vector<size_t> at_;            // [ranks] the current step
  std::vector<int> open_;             // [ranks] messages of that step still unmatched
  std::vector<const Action*> sends_;  // [from, to] posted, still unmatched
  std::vector<const Action*> recvs_;  // [from, to]
  std::vector<int> ready_;            // ranks whose batch has completed
  std::optional<std::string> mismatch_;
};

}  // namespace

std::optional<std::string> FindMessageFault(const Schedule& schedule) { return RendezvousGame(schedule).Play(); }

}  // namespace trireme
