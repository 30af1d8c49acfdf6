// How sequences are cut into chunks for the gated delta rule: within a chunk all tokens are computed at once, from
// chunk to chunk a state is passed on. Integers only, no tensors.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

// Consecutive tokens of one sequence, which begins with them, with an earlier prefix that other runs may share, or
// continues from a state.
struct DeltaRun {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t prefix_begin = 0;
  int64_t prefix_end = 0;

  int64_t size() const { return end - begin; }
  int64_t prefix() const { return prefix_end - prefix_begin; }
  // The token at a place of the sequence, the prefix's counted.
  int64_t TokenAt(int64_t place) const { return place < prefix() ? prefix_begin + place : begin + place - prefix(); }
};

// Chunks in steps: the first one of every run, then the second one of those that have one, and so on; the longest runs
// first, so that the runs of a step are the first ones of the step before.
struct DeltaChunks {
  int64_t tokens = 0;                // of all rows, those of no run among them
  int64_t size = 0;                  // tokens per chunk
  std::vector<int64_t> reads = {};   // [chunks · size]: the token at each place of a chunk; `tokens`: none
  std::vector<int64_t> writes = {};  // the same, but none for the tokens of a prefix, whose own run writes them
  std::vector<int64_t> active = {};  // by step: how many runs have a chunk
  std::vector<int64_t> order = {};   // runs, the longest first
  bool prefixes = false;             // some tokens are read more than once

  int64_t chunks() const { return size == 0 ? 0 : static_cast<int64_t>(reads.size()) / size; }
};

// At most `size` tokens per chunk, fewer where all runs are shorter.
DeltaChunks CutIntoChunks(const std::vector<DeltaRun>& runs, int64_t tokens, int64_t size = 64);

// What a convolution over the runs' tokens reads: by token, how many tokens of its run come before it, 0 outside of
// runs; and tokens at the beginning of runs that reach back into a prefix.
struct ConvPlaces {
  struct Reach {
    std::vector<int64_t> tokens, sources;
  };
  std::vector<int64_t> places = {};
  std::vector<Reach> reaches = {};  // by how many tokens they reach back: 0, 1, …
};
ConvPlaces PlacesInRuns(const std::vector<DeltaRun>& runs, int64_t tokens, int64_t taps);

}  // namespace trireme
