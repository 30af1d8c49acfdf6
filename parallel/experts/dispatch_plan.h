// Which rows go where, given each token's choice of experts: the order in which a rank sends its tokens, what
// it sends to and receives from every rank, and how received rows are sorted by expert. Integers only, no
// tensors.
//
// Each rank of the group holds experts / ep experts, and etp adjacent ranks hold parts of the same ones: a
// token goes to all etp ranks of each of its experts, and their outputs are summed on the rank it came from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/communicator.h"

namespace trireme {

struct ExpertLayout {
  int64_t experts = 0;
  int expert = 1;         // ep: divides experts
  int expert_tensor = 1;  // etp; rank of the group = etp + ETP · ep
  int rank = 0;           // in the group

  int ranks() const { return expert * expert_tensor; }
  int64_t held() const { return experts / expert; }  // per rank
  int64_t first() const { return rank / expert_tensor * held(); }
};

// Rows sorted by expert, tokens in order within an expert. `chosen`: an expert, or -1 for a choice that is
// not dispatched; its position becomes -1 too. Returns the number of rows per expert; each has room for at
// least `least`.
std::vector<int64_t> PositionsByExpert(std::span<const int64_t> chosen, int64_t experts, std::span<int64_t> positions,
                                       int64_t least = 0);

// Of an expert's choices beyond `capacity`, those with the smallest weights become -1, among equal weights
// the later token's, of one token's the later choice. chosen and weights: [tokens, k]; order: [tokens], a token's
// position in the micro batch.
void KeepLargest(std::span<int64_t> chosen, std::span<const float> weights, std::span<const int64_t> order,
                 int64_t experts, int64_t capacity);

struct ExchangePlan {  // counts and offsets are in rows
  int64_t sent_rows = 0;
  int64_t received_rows = 0;
  int64_t held_rows = 0;           // received rows, and padding of experts
  Parts sent;                      // of the rows by expert; the ranks of one expert have the same offset
  Parts received;                  // in rank order
  Parts returned;                  // where returned rows are written: etp consecutive copies of the rows by expert
  std::vector<int64_t> regrouped;  // [received_rows] position of each among this rank's rows by expert
  std::vector<int64_t> ends;       // [held] where each expert's rows end
};

// counts: [ranks, experts], the result of PositionsByExpert on each rank of the group. Experts with fewer
// rows than `least` are padded.
ExchangePlan PlanExchange(std::span<const int64_t> counts, const ExpertLayout& layout, int64_t least = 0);

// The same for sizes that are known before the choices. rooms: [ranks, ep], for the rows that each rank sends to the
// ranks of each ep-th of the experts. How received rows are sorted is left open: `regrouped` and `ends` are empty.
ExchangePlan PlanRooms(std::span<const int64_t> rooms, const ExpertLayout& layout);

// The room for as many rows as the steps before had at most: an eighth more, and what small numbers vary by.
int64_t RoomFor(int64_t rows);

}  // namespace trireme
