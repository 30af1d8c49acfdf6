// The cube core: where each piece of L1, L0A and L0B came from, so that fractals in a wrong order are found before
// they are multiplied, and unit flags between products and the fixpipe. Bytes, bounds and flags are in checker.cc.
#include <algorithm>

#include "twin/ascendc/include/ascendc/checker.h"

namespace twin::ascendc {
namespace {

constexpr uint32_t kOriginsBegin = BeginOf(Memory::kL1), kOriginsEnd = BeginOf(Memory::kL0c);
constexpr uint32_t kLanes = 16;        // of a fractal
constexpr uint32_t kFewFractals = 10;  // of L0C: the product is over before the next one reads what it wrote

uint32_t Along(const Origin& origin, bool lanes) { return lanes != origin.transposed ? origin.row : origin.column; }

bool Comparable(const Origin& a, const Origin& b) {
  return a.copy != 0 && a.copy == b.copy && a.transposed == b.transposed;
}

std::string Named(const Origin& origin) {
  return "row " + std::to_string(origin.row) + ", column " + std::to_string(origin.column);
}

}  // namespace

void Checker::SetOrigin(const void* piece, const Origin& origin) {
  const int64_t offset = static_cast<const uint8_t*>(piece) - core_->ub;
  if (offset < kOriginsBegin || offset >= kOriginsEnd) return;
  if (origins_.empty()) origins_.resize((kOriginsEnd - kOriginsBegin) / kBlockBytes);
  origins_[static_cast<size_t>(offset - kOriginsBegin) / kBlockBytes] = origin;
}

Origin Checker::OriginOf(const void* piece) const {
  const int64_t offset = static_cast<const uint8_t*>(piece) - core_->ub;
  if (offset < kOriginsBegin || offset >= kOriginsEnd || origins_.empty()) return {};
  return origins_[static_cast<size_t>(offset - kOriginsBegin) / kBlockBytes];
}

// Of the fractal's first lane.
Origin Checker::FractalOrigin(const FractalMatrix& matrix, uint32_t lane, uint32_t k) const {
  return OriginOf(matrix.begin + size_t{kFractalBytes} * (lane * matrix.lane_stride + k * matrix.k_stride));
}

// In row `lane` of fractals and column `k`: its own lanes, the row's first and the column's first fractal.
void Checker::CheckFractal(const FractalMatrix& matrix, uint32_t lane, uint32_t k, Place place) const {
  const uint8_t* begin = matrix.begin + size_t{kFractalBytes} * (lane * matrix.lane_stride + k * matrix.k_stride);
  const Origin mine = OriginOf(begin);
  const std::string name = std::string("fractal ") + std::to_string(lane) + ", " + std::to_string(k) + " of " +
                           matrix.name + " (" + (matrix.lane_stride > matrix.k_stride ? "ZZ" : "ZN") + ")";
  for (uint32_t i = 1; i < std::min(kLanes, matrix.lanes - lane * kLanes); ++i) {
    const Origin next = OriginOf(begin + i * kBlockBytes);
    if (!Comparable(mine, next)) continue;
    if (Along(next, true) != Along(mine, true) + i || Along(next, false) != Along(mine, false))
      Complain(place, name + ": its lane " + std::to_string(i) + " is from " + Named(next) + ", its first from " +
                          Named(mine) + ": not 16 adjacent lanes of one matrix");
  }
  const Origin row = FractalOrigin(matrix, lane, 0), column = FractalOrigin(matrix, 0, k);
  const auto differs = [&](const Origin& other, bool lanes, const char* where) {
    if (!Comparable(mine, other) || Along(mine, lanes) == Along(other, lanes)) return;
    Complain(place, name + " is from " + Named(mine) + ", " + where + " from " + Named(other) +
                        ": the fractals are in the wrong order");
  };
  differs(row, true, "the first of its lanes");
  differs(column, false, "the first of its k");
  const bool twice = (k > 0 && Comparable(mine, row) && Along(mine, false) == Along(row, false)) ||
                     (lane > 0 && Comparable(mine, column) && Along(mine, true) == Along(column, true));
  if (twice) Complain(place, name + " is from " + Named(mine) + " like the first: it was loaded twice");
}

void Checker::Multiplied(const FractalMatrix& a, const FractalMatrix& b, uint32_t c0, Place place) const {
  if (origins_.empty()) return;
  for (const FractalMatrix& matrix : {a, b}) {
    for (uint32_t lane = 0; lane < matrix.along_lanes; ++lane)
      for (uint32_t k = 0; k < matrix.along_k; ++k) CheckFractal(matrix, lane, k, place);
  }
  for (uint32_t k = 1; k < a.along_k; ++k) {
    const Origin first_a = FractalOrigin(a, 0, 0), first_b = FractalOrigin(b, 0, 0), of_a = FractalOrigin(a, 0, k),
                 of_b = FractalOrigin(b, 0, k);
    if (!Comparable(first_a, of_a) || !Comparable(first_b, of_b)) continue;
    const uint32_t step_a = Along(of_a, false) - Along(first_a, false),
                   step_b = Along(of_b, false) - Along(first_b, false);
    if (step_a == step_b) continue;
    Complain(place, "along k, fractal " + std::to_string(k) + " of A is " + std::to_string(static_cast<int>(step_a)) +
                        " after the first, of B " + std::to_string(static_cast<int>(step_b)) + "; " +
                        std::to_string(k * c0) + " would be in order");
  }
}

void Checker::FindUnits(const void* begin, uint64_t bytes, std::vector<Unit*>* found) {
  const auto first = static_cast<uint32_t>(static_cast<const uint8_t*>(begin) - core_->ub);
  for (Unit& unit : units_)
    if (unit.begin < first + bytes && first < unit.end) found->push_back(&unit);
}

void Checker::UnitFlagOfProduct(const void* begin, uint64_t bytes, int flag, Place place) {
  std::vector<Unit*> units;
  FindUnits(begin, bytes, &units);
  for (const Unit* unit : units) {
    if (unit->closed)
      Complain(place, "the unit flag of L0C was closed (line " + std::to_string(unit->line) +
                          ") and no Fixpipe with unitFlag 3 came since: the device would wait forever");
    if (flag == 0)
      Complain(place, "unitFlag 0, but the product of line " + std::to_string(unit->line) +
                          " into the same part of L0C left its unit flag open; all have one, or none");
  }
  if (flag == 0) return;
  if (flag != 2 && flag != 3) Complain(place, "unitFlag " + std::to_string(flag) + "; wanted 0, 2 or 3");
  const auto first = static_cast<uint32_t>(static_cast<const uint8_t*>(begin) - core_->ub);
  for (uint32_t at = first; at < first + bytes; at += kBlockBytes)  // the fixpipe freed it by the same flag
    seen_[PIPE_M][PIPE_FIX] =
        std::max(seen_[PIPE_M][PIPE_FIX], GranuleAt((at - kUbBytes) / kBlockBytes + kUbBytes / 4).reads[PIPE_FIX].time);
  if (units.empty()) units_.push_back({first, static_cast<uint32_t>(first + bytes), flag == 3, place.line});
  for (Unit* unit : units) unit->closed = flag == 3, unit->line = place.line;
}

void Checker::UnitFlagOfFixpipe(const void* begin, uint64_t bytes, int flag, Place place) {
  std::vector<Unit*> units;
  FindUnits(begin, bytes, &units);
  if (flag == 0) {
    if (!units.empty())
      Complain(place, "unitFlag 0, but the product of line " + std::to_string(units[0]->line) +
                          " set a unit flag; give Fixpipe unitFlag 3");
    return;
  }
  if (flag != 3) Complain(place, "unitFlag " + std::to_string(flag) + "; wanted 0 or 3");
  if (units.empty()) Complain(place, "unitFlag 3, but no product set a unit flag: the device would wait forever");
  for (const Unit* unit : units) {
    if (!unit->closed)
      Complain(place, "the product of line " + std::to_string(unit->line) +
                          " left its unit flag open; the last one along k needs unitFlag 3");
  }
  const auto first = static_cast<uint32_t>(static_cast<const uint8_t*>(begin) - core_->ub);
  for (uint32_t at = first; at < first + bytes; at += kBlockBytes)
    seen_[PIPE_FIX][PIPE_M] =
        std::max(seen_[PIPE_FIX][PIPE_M], GranuleAt((at - kUbBytes) / kBlockBytes + kUbBytes / 4).write.time);
  std::erase_if(units_, [&](const Unit& unit) { return unit.begin < first + bytes && first < unit.end; });
}

void Checker::AfterProduct(const void* begin, Place place) const {
  const auto offset = static_cast<uint32_t>(static_cast<const uint8_t*>(begin) - core_->ub);
  const Granule& granule = granules_[(offset - kUbBytes) / kBlockBytes + kUbBytes / 4];
  const bool fresh = granule.epoch == epoch_ && granule.writer == PIPE_M && granule.write.time > seen_[PIPE_M][PIPE_M];
  if (fresh)
    Complain(place, "adds to fewer than " + std::to_string(kFewFractals) +
                        " fractals of L0C, which the product of line " + std::to_string(granule.write.line) +
                        " may still write; call PipeBarrier<PIPE_M>() in between");
}

}  // namespace twin::ascendc
