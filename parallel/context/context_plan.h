// ContextPlan: which tokens of a micro batch's rows each context-parallel rank holds, and which keys its
// queries see where. Numbers only.
//
// Context ranks are ring positions of `ulysses` neighbours: rank = ulysses + U · ring. A row is cut into
// blocks, which are dealt to the ring positions so that each gets as many tokens and, as nearly as can be, as
// much attention: of a single document the first block and the last, the second and the last but one, and so
// on. The neighbours of a position cut its tokens once more, in order, and exchange them for heads.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention_tile.h"

namespace trireme {

// A run of tokens that see each other and nothing else.
struct Document {
  int64_t begin = 0;  // among all tokens of the micro batch
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Document&) const = default;
};
using TokenRange = Document;

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
  // Rows of `length` tokens, a multiple of 2 · ring · ulysses where ring is more than one. Documents are in
  // order, none across two rows; tokens in none of them are padding.
  ContextPlan(int64_t rows, int64_t length, const std::vector<Document>& documents,
              const ContextSplit& split);

  int64_t local_length() const { return local_length_; }  // tokens of each row on this rank
  // [rows · local_length] of all tokens of the micro batch, in this rank's order.
  std::vector<int64_t> LocalTokens() const;
  // This position's queries against the keys of a ring position; both as long as a position's tokens.
  const RowTiles& Tiles(int key_position) const { return tiles_.at(key_position); }
  // Nothing is split and no row has a second document: plain causal attention will do.
  bool plain() const { return plain_; }
  // Pairs of query and key that a ring position works on, for its balance.
  int64_t Work(int position) const;

 private:
  void Deal(int64_t row, const std::vector<Document>& documents);

  ContextSplit split_;
  int64_t rows_ = 0, length_ = 0, local_length_ = 0;
  bool plain_ = true;
  std::vector<std::vector<Document>> documents_;              // [rows], from each row's begin
  std::vector<std::vector<std::vector<TokenRange>>> pieces_;  // [ring][rows], from each row's begin
  std::vector<RowTiles> tiles_;                               // [ring]
};

// Tokens at `queries` against those at `keys`, each a list of pieces one after the other.
std::vector<AttentionTile> TilesBetween(const std::vector<TokenRange>& queries,
                                        const std::vector<TokenRange>& keys,
                                        const std::vector<Document>& documents);

}  // namespace trireme
