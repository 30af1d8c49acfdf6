// Segments: how the context ranks hold the documents, for layers that pass a state along each document. A segment are
// consecutive tokens of a document on one rank; the segments of a document in order are a chain, along which the state
// passes. Integers only, no tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/context/context_plan.h"

namespace trireme {

struct Segment {
  int rank = 0;
  int64_t begin = 0, end = 0;  // among the rank's tokens
  int64_t place = 0;           // tokens of the document before it
  int64_t slot = 0;            // among the rank's segments of chains

  int64_t size() const { return end - begin; }
};

struct SegmentPlan {
  std::vector<TokenRange> whole = {};             // documents that are on this rank from begin to end, among its tokens
  std::vector<std::vector<Segment>> chains = {};  // the other documents, of all ranks
  std::vector<Segment> mine = {};                 // this rank's segments of them, by slot
  int64_t most = 0;                               // segments of chains that a rank has at most

  // Tokens before a segment that a convolution reads. Each rank gives some of its tokens, in the same number of rows.
  std::vector<int64_t> given = {};       // among this rank's tokens
  int64_t most_given = 0;                // by any rank
  std::vector<int64_t> taken = {};       // rows of what all ranks give, rank by rank, as `borders` has them
  std::vector<TokenRange> borders = {};  // by slot: those of `taken` that come before the segment
};

// reach: how many earlier tokens the convolution reads. Not for documents with prefixes.
SegmentPlan SegmentsOf(const ContextPlan& plan, int ranks, int rank, int64_t reach);

bool HasPrefixes(const ContextPlan& plan);

}  // namespace trireme
