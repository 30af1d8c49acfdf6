#include "parallel/context/ring.h"

#include <ATen/ATen.h>

#include <array>
#include <optional>
#include <utility>

#include "core/tensor/dtype.h"
#include "ops/attention/packed_attention.h"
#include "ops/attention/windowed_tiles.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// Keys and values, adjacent in one buffer so that they travel in one message.
struct KeysValues {
  at::Tensor flat, key, value;

  KeysValues(const Heads& like, at::ScalarType type) {
    flat = at::empty({like.key.numel() + like.value.numel()}, like.key.options().dtype(type));
    key = flat.narrow(0, 0, like.key.numel()).view(like.key.sizes());
    value = flat.narrow(0, like.key.numel(), like.value.numel()).view(like.value.sizes());
  }
};

class Ring {
 public:
  Ring(const Heads& heads, const ContextParallel& parallel)
      : heads_(heads), parallel_(parallel), rank_(parallel.split().ring_rank()) {}

  int size() const { return parallel_.ring; }
  // Whose keys this rank holds after that many steps.
  int OwnerAt(int step) const { return (rank_ - step + size()) % size(); }

  // Sends to the next position and receives from the previous one, overlapping with compute.
  std::pair<KeysValues, Pending> Pass(const KeysValues& sent) const {
    KeysValues arriving(heads_, sent.flat.scalar_type());
    const std::array<Transfer, 2> transfers = {
        Transfer{Transfer::Direction::kSend, Member(rank_ + 1), sent.flat.data_ptr(), Count(sent)},
        Transfer{Transfer::Direction::kReceive, Member(rank_ - 1), arriving.flat.data_ptr(), Count(sent)}};
    Pending pending(parallel_.group.BatchSendReceive(transfers, FromTorch(sent.flat.scalar_type())),
                    {sent.flat, arriving.flat});
    return {std::move(arriving), std::move(pending)};
  }

  // Calls work(step, keys and values) for every position while the next ones are in transit.
  template <typename Work>
  void ForEachPosition(const Work& work) const {
    KeysValues here(heads_, heads_.key.scalar_type());
    here.key.copy_(heads_.key);
    here.value.copy_(heads_.value);
    for (int step = 0; step < size(); ++step) {
      if (step + 1 == size()) {
        work(step, here);
        return;
      }
      auto [next, pending] = Pass(here);
      work(step, here);
      pending.Wait();
      here = std::move(next);
    }
  }

 private:
  int Member(int position) const {
    const ContextSplit split = parallel_.split();
    return (position + size()) % size() * split.ulysses + split.ulysses_rank();
  }
  static size_t Count(const KeysValues& sent) { return static_cast<size_t>(sent.flat.numel()); }

  const Heads& heads_;
  const ContextParallel& parallel_;
  const int rank_;
};

RowTiles TilesUnder(const AttentionRule& rule, const RowTiles& tiles) {
  return Capped(Windowed(tiles, rule.window), rule.soft_cap);
}

}  // namespace

PartialAttention RingAttention(const Heads& heads, const AttentionRule& rule, const ContextPlan& plan,
                               const ContextParallel& parallel) {
  const Ring ring(heads, parallel);
  if (ring.size() == 1) {
    const auto attend = rule.sinks == nullptr ? AttendPacked : AttendPackedWithSums;
    return attend(heads, rule.scale, TilesUnder(rule, plan.Tiles(0)));
  }
  PartialAttention partial = EmptyPartial(heads.query, heads.value.size(3));
  ring.ForEachPosition([&](int step, const KeysValues& here) {
    AttendTiles({heads.query, here.key, here.value}, rule.scale, TilesUnder(rule, plan.Tiles(ring.OwnerAt(step))),
                partial);
  });
  return partial;
}

Heads RingAttentionBackward(const Heads& heads, const AttentionRule& rule, const ContextPlan& plan,
                            const AttendedQueries& given, const ContextParallel& parallel) {
  const Ring ring(heads, parallel);
  if (ring.size() == 1) {
    const auto backward = rule.sinks == nullptr ? AttendPackedBackward : AttendPackedWithSumsBackward;
    return backward(heads, rule.scale, TilesUnder(rule, plan.Tiles(0)), given);
  }
  const AttendedQueries queries = given.HeadByHead();
  const at::Tensor query_sum = at::zeros_like(heads.query, at::kFloat);
  // Gradients of the keys held here; those from earlier ranks arrive while this rank computes its own.
  std::optional<std::pair<KeysValues, Pending>> arriving;
  ring.ForEachPosition([&](int step, const KeysValues& here) {
    KeysValues mine(heads, at::kFloat);
    mine.flat.zero_();
    Heads sums{query_sum, mine.key, mine.value};
    AttendTilesBackward({heads.query, here.key, here.value}, rule.scale,
                        TilesUnder(rule, plan.Tiles(ring.OwnerAt(step))), queries, sums);
    if (arriving) {
      arriving->second.Wait();
      mine.flat.add_(arriving->first.flat);
      arriving.reset();
    }
    arriving.emplace(ring.Pass(mine));
  });
  arriving->second.Wait();
  return {query_sum, arriving->first.key, arriving->first.value};
}

}  // namespace trireme
