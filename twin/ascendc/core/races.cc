// Cells of bytes, one map per kind of access, so that blocks that only read are never compared with each
// other.
#include "twin/ascendc/core/races.h"

#include <algorithm>

namespace twin::ascendc {
namespace {

// Bounds the memory of a launch to some 25 MB; later accesses are not checked.
constexpr size_t kMostKept = size_t{1} << 18;

bool Before(const GlobalAccess& a, const GlobalAccess& b) {
  return b.seen != nullptr && (*b.seen)[a.block] > a.segment;
}

bool Ordered(const GlobalAccess& a, const GlobalAccess& b) {
  return a.block == b.block || Before(a, b) || Before(b, a);
}

// Reads do not conflict with each other, nor do atomics of the same kind.
bool Disturbs(AccessKind a, AccessKind b) { return a != b || a == AccessKind::kWrite; }

bool IsSameAccess(const GlobalAccess& a, const GlobalAccess& b) {  // except for the bytes
  return a.block == b.block && a.segment == b.segment && a.place.line == b.place.line && a.place.file == b.place.file;
}

}  // namespace

std::optional<GlobalAccess> Races::Clash(const Cells& cells, const GlobalAccess& mine) const {
  auto cell = cells.upper_bound(mine.begin);
  if (cell != cells.begin()) --cell;
  for (; cell != cells.end() && cell->first < mine.end; ++cell) {
    if (cell->second.end <= mine.begin) continue;
    for (const GlobalAccess& other : cell->second.by) {
      if (!Ordered(mine, other)) return other;
    }
  }
  return std::nullopt;
}

// Splits the cell that contains `at`, so that one starts there.
void Races::Split(Cells& cells, uint64_t at) {
  auto cell = cells.upper_bound(at);
  if (cell == cells.begin()) return;
  --cell;
  if (cell->first == at || cell->second.end <= at) return;
  cells.emplace(at, cell->second);
  cell->second.end = at;
}

void Races::Keep(const GlobalAccess& mine) {
  Cells& cells = cells_[static_cast<int>(mine.kind)];
  Split(cells, mine.begin);
  Split(cells, mine.end);
  uint64_t at = mine.begin;
  for (auto cell = cells.lower_bound(mine.begin); at < mine.end;) {
    if (cell == cells.end() || cell->first > at) {
      const uint64_t end = cell == cells.end() ? mine.end : std::min(mine.end, cell->first);
      cell = cells.emplace_hint(cell, at, Cell{end, {}});
    }
    auto& by = cell->second.by;
    if (by.empty() || !IsSameAccess(by.back(), mine)) by.push_back(mine), ++kept_;
    at = cell->second.end;
    ++cell;
  }
}

std::optional<GlobalAccess> Races::Add(const GlobalAccess& mine) {
  for (int kind = 0; kind < kAccessKinds; ++kind) {
    if (!Disturbs(mine.kind, static_cast<AccessKind>(kind))) continue;
    if (auto other = Clash(cells_[kind], mine)) return other;
  }
  if (kept_ < kMostKept) Keep(mine);
  return std::nullopt;
}

}  // namespace twin::ascendc
