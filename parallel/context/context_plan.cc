#include "parallel/context/context_plan.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kSmallestBlock = 64;  // tokens: smaller blocks make inefficient matmuls

// Query-key pairs for the queries of a range: a token attends to its document's prefix and to the document itself, up
// to its own position.
int64_t WorkOf(const TokenRange& range, const std::vector<Document>& documents) {
  int64_t pairs = 0;
  for (const Document& document : documents) {
    const int64_t begin = std::max(range.begin, document.begin) - document.begin;
    const int64_t end = std::min(range.end, document.end) - document.begin;
    if (begin < end) pairs += (begin + 1 + end) * (end - begin) / 2 + (end - begin) * document.prefix.size();
  }
  return pairs;
}

// A single document needs two blocks per ring position. Several documents cost unequal amounts, and smaller
// blocks balance them better.
int64_t BlocksOf(int64_t length, size_t documents, int ring) {
  if (ring == 1) return 1;
  for (int64_t blocks = 16 * ring; documents > 1 && blocks > 2 * ring; blocks -= ring) {
    if (length % blocks == 0 && length / blocks >= kSmallestBlock) return blocks;
  }
  return 2 * ring;
}

void AppendPiece(std::vector<TokenRange>& pieces, const TokenRange& piece) {
  if (!pieces.empty() && pieces.back().end == piece.begin) {
    pieces.back().end = piece.end;
  } else {
    pieces.push_back(piece);
  }
}

// Queries that come `after` tokens after the end of a prefix, against those of its keys that stand in `keys`.
void AddPrefixTiles(const TokenRange& prefix, int64_t query, int64_t queries, int64_t after,
                    const std::vector<TokenRange>& keys, std::vector<AttentionTile>& tiles) {
  int64_t key_offset = 0;
  for (const TokenRange& piece : keys) {
    const int64_t begin = std::max(piece.begin, prefix.begin), end = std::min(piece.end, prefix.end);
    if (begin < end) {
      tiles.push_back({.query = query,
                       .queries = queries,
                       .key = key_offset + begin - piece.begin,
                       .keys = end - begin,
                       .first = prefix.end - begin + after});
    }
    key_offset += piece.size();
  }
}

}  // namespace

std::vector<AttentionTile> TilesBetween(const std::vector<TokenRange>& queries, const std::vector<TokenRange>& keys,
                                        const std::vector<Document>& documents) {
  std::vector<AttentionTile> tiles;
  int64_t query_offset = 0;
  for (const TokenRange& piece : queries) {
    for (const Document& document : documents) {
      const int64_t begin = std::max(piece.begin, document.begin), end = std::min(piece.end, document.end);
      if (begin < end && document.prefix.size() > 0) {
        AddPrefixTiles(document.prefix, query_offset + begin - piece.begin, end - begin, begin - document.begin, keys,
                       tiles);
      }
      int64_t key_offset = 0;
      for (const TokenRange& other : keys) {
        const int64_t key = std::max(other.begin, document.begin);
        const int64_t key_end = std::min({other.end, document.end, end});  // no query attends to later keys
        if (begin < end && key < key_end) {
          TRIREME_CHECK(key <= begin) << "keys from " << key << " start inside queries from " << begin;
          tiles.push_back({.query = query_offset + begin - piece.begin,
                           .queries = end - begin,
                           .key = key_offset + key - other.begin,
                           .keys = key_end - key,
                           .first = begin - key});
        }
        key_offset += other.size();
      }
    }
    query_offset += piece.size();
  }
  return tiles;
}

ContextPlan::ContextPlan(int64_t rows, int64_t length, const std::vector<Document>& documents,
                         const ContextSplit& split)
    : split_(split), rows_(rows), length_(length), local_length_(length / split.size()), documents_(rows) {
  TRIREME_CHECK(length % (split.ring > 1 ? 2 * split.size() : split.size()) == 0)
      << length << " tokens per row cannot be split over " << split.ring << " x " << split.ulysses << " context ranks";
  for (const Document& document : documents) {
    const int64_t row = document.begin / length, begin = row * length;
    TRIREME_CHECK(document.end <= begin + length) << "a document spans two rows";
    documents_[row].push_back({document.begin - begin, document.end - begin});
    if (document.prefix.size() == 0) continue;
    TRIREME_CHECK(document.prefix.begin >= begin && document.prefix.end <= document.begin)
        << "the prefix of a document is not before it in its row";
    documents_[row].back().prefix = {document.prefix.begin - begin, document.prefix.end - begin};
  }
  plain_ = split.size() == 1;
  for (const std::vector<Document>& row : documents_) {
    plain_ = plain_ && (row.empty() || (row.size() == 1 && row[0].begin == 0));
  }
  pieces_.assign(split.ring, std::vector<std::vector<TokenRange>>(rows));
  for (int64_t row = 0; row < rows; ++row) Deal(row, documents_[row]);
  const auto& mine = pieces_[split.ring_rank()];
  for (int position = 0; position < split.ring; ++position) {
    tiles_.emplace_back();
    for (int64_t row = 0; row < rows; ++row) {
      tiles_.back().push_back(TilesBetween(mine[row], pieces_[position][row], documents_[row]));
    }
  }
}

// In rounds: the costliest remaining blocks, each to the position with the least work so far.
void ContextPlan::Deal(int64_t row, const std::vector<Document>& documents) {
  const int64_t count = BlocksOf(length_, documents.size(), split_.ring), size = length_ / count;
  std::vector<TokenRange> blocks;
  std::vector<int64_t> work;
  for (int64_t i = 0; i < count; ++i) {
    blocks.push_back({i * size, (i + 1) * size});
    work.push_back(WorkOf(blocks.back(), documents));
  }
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return work[a] > work[b]; });
  std::vector<int> positions(split_.ring);
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<int64_t> loads(split_.ring, 0);
  std::vector<std::vector<TokenRange>> dealt(split_.ring);
  for (size_t next = 0; next < order.size(); next += positions.size()) {
    std::stable_sort(positions.begin(), positions.end(), [&](int a, int b) { return loads[a] < loads[b]; });
    for (size_t i = 0; i < positions.size(); ++i) {
      dealt[positions[i]].push_back(blocks[order[next + i]]);
      loads[positions[i]] += work[order[next + i]];
    }
  }
  for (int position = 0; position < split_.ring; ++position) {
    std::sort(dealt[position].begin(), dealt[position].end(),
              [](const TokenRange& a, const TokenRange& b) { return a.begin < b.begin; });
    for (const TokenRange& block : dealt[position]) AppendPiece(pieces_[position][row], block);
  }
}

std::vector<int64_t> ContextPlan::TokensOf(int rank) const {
  const ContextSplit split{.ring = split_.ring, .ulysses = split_.ulysses, .rank = rank};
  std::vector<int64_t> tokens;
  for (int64_t row = 0; row < rows_; ++row) {
    std::vector<int64_t> of_position;
    for (const TokenRange& piece : pieces_[split.ring_rank()][row]) {
      for (int64_t token = piece.begin; token < piece.end; ++token) of_position.push_back(row * length_ + token);
    }
    const auto first = of_position.begin() + split.ulysses_rank() * local_length_;
    tokens.insert(tokens.end(), first, first + local_length_);
  }
  return tokens;
}

int64_t ContextPlan::Work(int position) const {
  int64_t pairs = 0;
  for (int64_t row = 0; row < rows_; ++row) {
    for (const TokenRange& piece : pieces_[position][row]) pairs += WorkOf(piece, documents_[row]);
  }
  return pairs;
}

}  // namespace trireme
