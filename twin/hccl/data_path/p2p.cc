// Each message advances independently from offered to matched to finished. Both sides see both offers, so
// both choose the same path: a copy by the side that can access the other's buffer, half each if both can,
// otherwise over the link.
#include "twin/hccl/data_path/p2p.h"

#include <cstring>

#include "twin/hccl/data_path/bulk_copy.h"
#include "twin/hccl/data_path/exchange.h"
#include "twin/hccl/data_path/waiter.h"
#include "twin/hccl/failure.h"

namespace twin {
namespace {

constexpr size_t kShareCopyFrom = 256 * 1024;        // bytes from which two copiers are faster than one
constexpr uint64_t kMessageTag = uint64_t{1} << 63;  // keeps messages and collectives apart on a link

class MessageRun {
 public:
  MessageRun(DataPath& path, const Operation& operation, const Message& message, Exchange& exchange)
      : path_(path),
        operation_(operation),
        message_(message),
        exchange_(exchange),
        self_(path.group().rank),
        pair_(message.is_send ? path.board_of(message.peer).pair(self_, message.peer)
                              : path.board_of(message.peer).pair(message.peer, self_)),
        bytes_(message.count * TypeBytes(message.type)) {
    OfferSlot& slot = own_slot();
    const Peer& peer = path.group().peers[message.peer];
    slot.offer = Offer{.count = message.count,
                       .type = static_cast<uint32_t>(message.type),
                       .maps_peer_arena = peer.arena != nullptr,
                       .buffer = path.Publish(message.buffer, bytes_)};
    slot.sequence.store(message.sequence, std::memory_order_release);
    path.SendOffer(message.peer, message.is_send, message.sequence);
  }

  uint32_t peer() const { return message_.peer; }
  bool finished() const { return state_ == State::kFinished; }

  // Does what can be done now; false if that was nothing.
  bool Step() {
    if (state_ == State::kOffered && other_slot().sequence.load(std::memory_order_acquire) == message_.sequence) {
      Match();
      Move();
      return true;
    }
    if (state_ == State::kCopied && other_done().load(std::memory_order_acquire) >= message_.sequence) {
      state_ = State::kFinished;
      return true;
    }
    return false;
  }

 private:
  enum class State { kOffered, kCopied, kFinished };

  OfferSlot& own_slot() const { return pair_.offer_of(message_.is_send, message_.sequence); }
  OfferSlot& other_slot() const { return pair_.offer_of(!message_.is_send, message_.sequence); }
  std::atomic<uint64_t>& own_done() const { return message_.is_send ? pair_.sender_done : pair_.receiver_done; }
  std::atomic<uint64_t>& other_done() const { return message_.is_send ? pair_.receiver_done : pair_.sender_done; }

  void Match() const {
    const Offer& own = own_slot().offer;
    const Offer& other = other_slot().offer;
    if (own.count == other.count && own.type == other.type) return;
    const auto describe = [](uint32_t rank, const char* verb, const Offer& offer) {
      return "rank " + std::to_string(rank) + verb + std::to_string(offer.count) + " x " +
             TypeName(HcclDataType(offer.type));
    };
    const std::string mine = describe(self_, message_.is_send ? " sends " : " expects ", own);
    const std::string its = describe(message_.peer, message_.is_send ? " expects " : " sends ", other);
    throw HcclFailure(HCCL_E_PARA, DescribeOperation(operation_, path_.group().name) +
                                       ": the two sides disagree: " + mine + ", " + its);
  }

  void Move() {
    const bool local = path_.group().peers[message_.peer].same_process;
    const Offer& send = pair_.send[message_.sequence % 2].offer;
    const Offer& receive = pair_.receive[message_.sequence % 2].offer;
    const bool can_pull = local || (send.buffer.arena_offset != kNowhere && receive.maps_peer_arena);
    const bool can_push = local || (receive.buffer.arena_offset != kNowhere && send.maps_peer_arena);
    if (bytes_ == 0) {
      state_ = State::kFinished;
    } else if (can_pull || can_push) {
      const size_t pulled = !can_push ? bytes_ : !can_pull ? 0 : bytes_ < kShareCopyFrom ? bytes_ : bytes_ / 2;
      Copy(message_.is_send ? pulled : 0, message_.is_send ? bytes_ : pulled);
      own_done().store(message_.sequence, std::memory_order_release);
      // A receiver that did all the copying has nothing to wait for.
      state_ = !message_.is_send && pulled == bytes_ ? State::kFinished : State::kCopied;
    } else {
      MoveOverLink();
    }
  }

  // Copies bytes [start, end) of the message.
  void Copy(size_t start, size_t end) const {
    if (start == end) return;
    auto* own = static_cast<std::byte*>(message_.buffer) + start;
    std::byte* other = path_.Reach(message_.peer, other_slot().offer.buffer) + start;
    BulkCopy(message_.is_send ? other : own, message_.is_send ? own : other, end - start, bytes_);
  }

  void MoveOverLink() {
    Link& link = path_.link(message_.peer);
    if (message_.is_send) {
      link.SetOutgoingTag(kMessageTag | message_.sequence);
      exchange_.Send(message_.peer, message_.buffer, bytes_);
    } else {
      link.SetIncomingTag(kMessageTag | message_.sequence);
      exchange_.Receive(message_.peer, message_.buffer, bytes_);
    }
    state_ = State::kFinished;  // the exchange tracks the rest
  }

  DataPath& path_;
  const Operation& operation_;
  const Message& message_;
  Exchange& exchange_;
  uint32_t self_;
  PairArea& pair_;
  size_t bytes_;
  State state_ = State::kOffered;
};

}  // namespace

void RunPointToPoint(DataPath& path, const Operation& operation) {
  Exchange exchange(path, operation);
  std::vector<MessageRun> runs;
  runs.reserve(operation.messages.size());
  for (const Message& message : operation.messages) runs.emplace_back(path, operation, message, exchange);
  Waiter waiter(path, operation);
  for (;;) {
    bool moved = exchange.Step(), finished = true;
    for (MessageRun& run : runs) {
      moved |= run.Step();
      finished = finished && run.finished();
    }
    if (finished && exchange.finished()) return;
    if (moved) {
      waiter.Restart();
      continue;
    }
    waiter.Pause([&] {
      std::vector<uint32_t> missing = exchange.Unfinished();
      for (const MessageRun& run : runs)
        if (!run.finished()) missing.push_back(run.peer());
      return missing;
    });
  }
}

}  // namespace twin
