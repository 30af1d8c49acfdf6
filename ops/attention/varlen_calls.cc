#include "ops/attention/varlen_calls.h"

#include <algorithm>
#include <utility>

#include "ops/attention/windowed_tiles.h"

namespace trireme {
namespace {

// A single query that attends to all keys is both. Neither has a window.
bool IsFull(const AttentionTile& t) { return t.keys == t.first + 1; }
bool IsCausal(const AttentionTile& t) { return t.keys == t.first + t.queries; }

// How many keys after the tile's last one its last query would attend to.
int64_t BeyondOf(const AttentionTile& t) { return t.first + t.queries - t.keys; }

AttentionTile Full(AttentionTile t) {
  t.first = t.keys - 1;
  return t;
}

// The tile as sequences that are full or causal: queries up to the last key, and those after it.
std::vector<AttentionTile> CausalAndFull(AttentionTile t) {
  t = Trimmed(t);
  if (t.queries == 0) return {};
  if (t.window > 0) return {t};
  if (t.keys <= t.first + 1) return {Full(t)};
  if (IsCausal(t)) return {t};
  AttentionTile before = t, after = t;
  before.queries = t.keys - t.first;
  after.query += before.queries;
  after.queries -= before.queries;
  return {before, Full(after)};
}

// `b` follows `a`: both in one sequence, if they are one.
bool JoinTiles(AttentionTile& a, const AttentionTile& b) {
  if (a.window > 0 || b.window > 0) return false;
  const bool more_keys = a.query == b.query && a.queries == b.queries && a.key + a.keys == b.key;
  if (more_keys && IsFull(a)) {
    a = {a.query, a.queries, a.key, a.keys + b.keys, a.keys + b.first};
    return true;
  }
  const bool more_queries = a.query + a.queries == b.query && a.key == b.key;
  if (more_queries && IsFull(a) && IsFull(b) && a.keys == b.keys) {
    a.queries += b.queries;
    return true;
  }
  if (more_queries && IsCausal(a) && IsCausal(b) && b.first == a.first + a.queries) {
    a.queries += b.queries;
    a.keys = b.keys;
    return true;
  }
  return false;
}

void AppendJoined(std::vector<AttentionTile>& joined, const AttentionTile& tile) {
  joined.push_back(tile);
  while (joined.size() > 1 && JoinTiles(joined[joined.size() - 2], joined.back())) joined.pop_back();
}

// A windowed tile: halves of its queries, then of its keys, each with what is left of the other. The window may hide
// nothing of a part.
void CutWindowed(const AttentionTile& whole, int64_t most, std::vector<AttentionTile>& pieces) {
  const AttentionTile t = Trimmed(whole);
  if (t.queries <= most && t.keys <= most) {
    for (const AttentionTile& part : CausalAndFull(t)) pieces.push_back(part);
    return;
  }
  AttentionTile before = t, after = t;
  if (t.queries > most) {
    before.queries = t.queries / 2;
    after.query += before.queries;
    after.queries -= before.queries;
    after.first += before.queries;
  } else {
    before.keys = t.keys / 2;
    after.key += before.keys;
    after.keys -= before.keys;
    after.first -= before.keys;
  }
  CutWindowed(before, most, pieces);
  CutWindowed(after, most, pieces);
}

void CutTile(const AttentionTile& t, int64_t most, std::vector<AttentionTile>& pieces) {
  if (t.queries <= most && t.keys <= most) {
    pieces.push_back(t);
  } else if (t.keys > most && t.first > 0) {  // keys that every query attends to
    const int64_t keys = std::min({most, t.first, t.keys - 1});
    CutTile(Full({t.query, t.queries, t.key, keys, 0}), most, pieces);
    CutTile({t.query, t.queries, t.key + keys, t.keys - keys, t.first - keys}, most, pieces);
  } else {
    const int64_t half = t.queries / 2, more = IsFull(t) ? 0 : half;  // keys of later queries only
    CutTile({t.query, half, t.key, IsFull(t) ? t.keys : t.first + half, t.first}, most, pieces);
    CutTile({t.query + half, t.queries - half, t.key, t.keys, t.first + more}, most, pieces);
  }
}

struct OpenCall {
  std::vector<AttentionTile> sequences;
  bool causal = true, full = true;  // what its sequences allow
  int64_t window = 0, beyond = 0;   // what they share
  int64_t queries = 0, keys = 0;

  bool Takes(const AttentionTile& t, const VarLenLimits& limits) const {
    if (sequences.empty()) return true;
    const AttentionTile& last = sequences.back();
    const bool alike = window > 0 ? t.window == window && BeyondOf(t) == beyond
                                  : t.window == 0 && ((causal && IsCausal(t)) || (full && IsFull(t)));
    return alike && t.query >= last.query + last.queries && t.key >= last.key + last.keys &&
           static_cast<int64_t>(sequences.size()) < limits.sequences && queries + t.queries <= limits.tokens &&
           keys + t.keys <= limits.tokens;
  }
  void Add(const AttentionTile& t) {
    sequences.push_back(t);
    window = t.window;
    beyond = BeyondOf(t);
    causal = causal && IsCausal(t);
    full = full && IsFull(t);
    queries += t.queries;
    keys += t.keys;
  }
};

void Place(std::vector<OpenCall>& calls, const AttentionTile& tile, const VarLenLimits& limits) {
  auto call = std::find_if(calls.begin(), calls.end(), [&](const OpenCall& c) { return c.Takes(tile, limits); });
  if (call == calls.end()) call = calls.insert(call, OpenCall{});
  call->Add(tile);
}

std::vector<int64_t> EndsOf(const std::vector<AttentionTile>& tiles, int64_t AttentionTile::* size) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const AttentionTile& tile : tiles) ends.push_back(end += tile.*size);
  return ends;
}

std::vector<TokenRun> RunsOf(const std::vector<AttentionTile>& tiles, int64_t AttentionTile::* begin,
                             int64_t AttentionTile::* size) {
  std::vector<TokenRun> runs;
  for (const AttentionTile& tile : tiles) {
    if (!runs.empty() && runs.back().begin + runs.back().size == tile.*begin) {
      runs.back().size += tile.*size;
    } else {
      runs.push_back({tile.*begin, tile.*size});
    }
  }
  return runs;
}

bool Overlap(std::vector<TokenRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const TokenRun& a, const TokenRun& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].begin < runs[i - 1].begin + runs[i - 1].size) return true;
  }
  return false;
}

}  // namespace

std::vector<int64_t> VarLenCall::QueryEnds() const { return EndsOf(sequences, &AttentionTile::queries); }
std::vector<int64_t> VarLenCall::KeyEnds() const { return EndsOf(sequences, &AttentionTile::keys); }
std::vector<TokenRun> VarLenCall::QueryRuns() const {
  return RunsOf(sequences, &AttentionTile::query, &AttentionTile::queries);
}
std::vector<TokenRun> VarLenCall::KeyRuns() const {
  return RunsOf(sequences, &AttentionTile::key, &AttentionTile::keys);
}

std::vector<VarLenCall> VarLenCalls(const RowTiles& tiles, const RowLengths& lengths, const VarLenLimits& limits) {
  std::vector<AttentionTile> joined;
  for (size_t row = 0; row < tiles.size(); ++row) {
    const auto index = static_cast<int64_t>(row);
    for (const AttentionTile& tile : tiles[row]) {
      for (AttentionTile part : CausalAndFull(tile)) {
        part.query += index * lengths.queries;
        part.key += index * lengths.keys;
        AppendJoined(joined, part);
      }
    }
  }
  std::vector<AttentionTile> pieces;
  for (const AttentionTile& tile : joined) {
    (tile.window > 0 ? CutWindowed : CutTile)(tile, limits.tokens, pieces);
  }
  std::vector<OpenCall> open;
  for (const AttentionTile& piece : pieces) Place(open, piece, limits);
  std::vector<VarLenCall> calls;
  for (OpenCall& call : open) {
    calls.push_back({.causal = call.window == 0 && !call.full,
                     .window = call.window,
                     .beyond = call.window > 0 ? call.beyond : 0,
                     .sequences = std::move(call.sequences)});
  }
  return calls;
}

bool NeedMerge(const std::vector<VarLenCall>& calls) {
  std::vector<TokenRun> queries, keys;
  for (const VarLenCall& call : calls) {
    const std::vector<TokenRun> own_queries = call.QueryRuns(), own_keys = call.KeyRuns();
    queries.insert(queries.end(), own_queries.begin(), own_queries.end());
    keys.insert(keys.end(), own_keys.begin(), own_keys.end());
  }
  return Overlap(std::move(queries)) || Overlap(std::move(keys));
}

}  // namespace trireme
