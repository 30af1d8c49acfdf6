// Which rows go where, from each token's choice of experts: in which order a rank sends its tokens, what it
// sends to and receives from every rank, and how what arrives is put in the order of its experts. Numbers
// only.
//
// Ranks of the group hold experts / ep experts each, and etp neighbours hold parts of the same ones: a token
// goes to all etp ranks of each of its experts, and what these give back is summed where it came from.
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
  int rank = 0;           // of the group

  int ranks() const { return expert * expert_tensor; }
  int64_t held() const { return experts / expert; }  // by each rank
  int64_t first() const { return rank / expert_tensor * held(); }
};

// Rows in the order of their experts, tokens in order within an expert. `chosen`: an expert, or -1 for a
// choice that goes nowhere; its place becomes -1 too. Returns how many rows each expert gets; each has room
// for at least `least`.
std::vector<int64_t> PlacesByExpert(std::span<const int64_t> chosen, int64_t experts,
                                    std::span<int64_t> places, int64_t least = 0);

// Of an expert's choices beyond `capacity` those with the smallest weights become -1; of equal ones the later
// token's. chosen and weights: [tokens, k]; order: [tokens], a token's place in the micro batch.
void KeepLargest(std::span<int64_t> chosen, std::span<const float> weights, std::span<const int64_t> order,
                 int64_t experts, int64_t capacity);

struct ExchangePlan {  // counts and offsets are in rows
  int64_t sent_rows = 0;
  int64_t received_rows = 0;
  int64_t held_rows = 0;  // received, and what experts are filled up with
  Parts sent;             // of the rows by expert; ranks of one expert share their offset
  Parts received;         // one rank after the other
  Parts returned;         // where what comes back lies: etp copies of the rows by expert, one after the other
  std::vector<int64_t> regrouped;  // [received_rows] place of each in the order of this rank's experts
  std::vector<int64_t> ends;       // [held] of those experts' rows
};

// counts: [ranks, experts], what PlacesByExpert gave on each rank of the group. Experts with fewer rows than
// `least` are filled up.
ExchangePlan PlanExchange(std::span<const int64_t> counts, const ExpertLayout& layout, int64_t least = 0);

}  // namespace trireme
