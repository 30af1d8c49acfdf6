// ContextPlan: which tokens of a micro batch's rows each context-parallel rank holds, and which keys on which
// rank its queries attend to. Integers only, no tensors.
//
// A context rank is ulysses + U · ring: each ring position has `ulysses` adjacent ranks. A row is cut into
// blocks, which are dealt to the ring positions so that each gets the same number of tokens and, as nearly as
// possible, the same attention work: for a single document the first block and the last, the second and the
// second to last, and so on. The ranks of a position split its tokens again, in order, and exchange them for
// heads.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/attention_tile.h"

namespace trireme {

struct TokenRange {
  int64_t begin = 0;  // among all tokens of the micro batch
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const TokenRange&) const = default;
};

// A run of tokens that attend only to each other and to a prefix.
struct Document {
  int64_t begin = 0;
  int64_t end = 0;
  TokenRange prefix = {};  // earlier tokens of the same row that come before its own, as a shared prompt does
  int64_t size() const { return end - begin; }
  bool operator==(const Document&) const = default;
};

struct ContextSplit {
  int ring = 1;
  int ulysses = 1;
  int rank = 0;

  int size() const { return ring * ulysses; }
  int ring_rank() const { return rank / ulysses; }
  int ulysses_rank() const { return rank % ulysses; }
};

class ContextPlan {
 public:
  ContextPlan() = default;
  // Rows of `length` tokens; a multiple of 2 · ring · ulysses if ring > 1. Documents are in order and never
  // span two rows; tokens outside any document are padding.
  ContextPlan(int64_t rows, int64_t length, const std::vector<Document>& documents, const ContextSplit& split);

  int64_t local_length() const { return local_length_; }  // tokens per row on this rank
  // [rows · local_length] indices into all tokens of the micro batch, in this rank's order.
  std::vector<int64_t> LocalTokens() const { return TokensOf(split_.rank); }
  // The same of any context rank.
  std::vector<int64_t> TokensOf(int rank) const;
  // Of all ranks' tokens: [rows], relative to the row's start.
  const std::vector<std::vector<Document>>& documents() const { return documents_; }
  int64_t length() const { return length_; }  // of a row
  // This position's queries against the keys of a ring position; both cover that position's tokens.
  const RowTiles& Tiles(int key_position) const { return tiles_.at(key_position); }
  // Nothing is split and each row is a single document: plain causal attention suffices.
  bool plain() const { return plain_; }
  // Query-key pairs that a ring position computes, to measure the balance.
  int64_t Work(int position) const;

 private:
  void Deal(int64_t row, const std::vector<Document>& documents);

  ContextSplit split_;
  int64_t rows_ = 0, length_ = 0, local_length_ = 0;
  bool plain_ = true;
  std::vector<std::vector<Document>> documents_;              // [rows], relative to the row's start
  std::vector<std::vector<std::vector<TokenRange>>> pieces_;  // [ring][rows], relative to the row's start
  std::vector<RowTiles> tiles_;                               // [ring]
};

// Tokens at `queries` against tokens at `keys`, each a list of consecutive pieces.
std::vector<AttentionTile> TilesBetween(const std::vector<TokenRange>& queries, const std::vector<TokenRange>& keys,
                                        const std::vector<Document>& documents);

}  // namespace trireme
