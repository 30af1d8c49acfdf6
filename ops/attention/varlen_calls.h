// VarLenCalls: attention tiles as calls of a variable-length ("varlen") operator, which takes many sequences
// side by side in one call: all causal, none, or all under one window. Integers only, no tensors.
// ops/attention/npu_attention.h makes the calls.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/attention_tile.h"

namespace trireme {

// What one call takes; of torch_npu's fused attention, by its documentation.
struct VarLenLimits {
  int64_t sequences = 1024;
  int64_t tokens = int64_t{1} << 20;  // of all sequences
};

// Tokens per row: tiles are relative to their row, the sequences of a call to the first row.
struct RowLengths {
  int64_t queries = 0;
  int64_t keys = 0;
};

// A run of tokens of all rows.
struct TokenRun {
  int64_t begin = 0;
  int64_t size = 0;
};

// Sequences in ascending order of queries and of keys; neither overlap. Causal: the last query of a sequence
// attends to all its keys, each earlier one to one key less. With a window: the last query attends to the last
// `window` keys of those up to `beyond` after the sequence's last one, each earlier query to keys one earlier; every
// query attends to some key. Otherwise every query attends to all keys.
struct VarLenCall {
  bool causal = false;
  int64_t window = 0;  // 0: none
  int64_t beyond = 0;  // with a window only
  std::vector<AttentionTile> sequences;

  // Cumulative lengths, one per sequence.
  std::vector<int64_t> QueryEnds() const;
  std::vector<int64_t> KeyEnds() const;
  // The tokens in the order of the sequences; adjacent sequences make one run.
  std::vector<TokenRun> QueryRuns() const;
  std::vector<TokenRun> KeyRuns() const;
};

// Every pair of query and key of the tiles is in exactly one call. Tiles that are parts of one sequence
// become one again; a sequence beyond the limits is cut, so that its queries are in several calls.
std::vector<VarLenCall> VarLenCalls(const RowTiles& tiles, const RowLengths& lengths, const VarLenLimits& limits = {});

// Whether some query or key is in several calls: their results have to be merged, their gradients summed.
bool NeedMerge(const std::vector<VarLenCall>& calls);

}  // namespace trireme
