#include "ops/attention/cached_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "ops/attention/attention_tiles.h"
#include "ops/attention/cached_tiles.h"
#include "ops/attention/flash_attention.h"
#include "ops/attention/npu_attention.h"
#include "ops/attention/sinks.h"
#include "ops/attention/windowed_tiles.h"
#include "ops/operator.h"

namespace trireme {
namespace {

// Allocates a quarter more than needed, so that a row that grows token by token is rarely copied. Zeroed:
// what padding attends to must be finite.
void Grow(at::Tensor& cache, const at::Tensor& fresh, int64_t needed) {
  const int64_t capacity = cache.defined() ? cache.size(2) : 0;
  if (cache.defined() && capacity >= needed) return;  // also on a rank that has no rows
  at::Tensor larger =
      at::zeros({fresh.size(0), fresh.size(1), needed + needed / 4 + 32, fresh.size(3)}, fresh.options());
  if (capacity > 0) larger.narrow(2, 0, capacity).copy_(cache);
  cache = larger;
}

void AppendRows(const at::Tensor& cache, const at::Tensor& fresh, const CachedRows& rows) {
  for (int64_t row = 0; row < fresh.size(0); ++row) {
    const int64_t count = rows.fresh[row];
    if (count > 0) cache[row].narrow(1, rows.past[row], count).copy_(fresh[row].narrow(1, 0, count));
  }
}

void Append(KeyValues& cache, const Heads& fresh, const CachedRows& rows) {
  Grow(cache.key, fresh.key, rows.longest());
  Grow(cache.value, fresh.value, rows.longest());
  AppendRows(cache.key, fresh.key, rows);
  AppendRows(cache.value, fresh.value, rows);
}

// Row by row in tiles, for CPU memory.
at::Tensor Tiled(const Heads& heads, double scale, const CachedRows& rows) {
  const RowTiles tiles = TilesOf(rows);
  PartialAttention partial = EmptyPartial(heads.query, heads.value.size(3));
  AttendTilesByLoops(heads, scale, tiles, partial);
  if (rows.sinks.defined()) ApplySinks(partial, rows.sinks);
  return partial.output;
}

// All rows in one matmul, with a mask.
at::Tensor Masked(const Heads& heads, double scale, const CachedRows& rows) {
  const auto size = heads.query.sizes();  // [rows, kv_heads, length, group, head_dim]
  const int64_t length = size[2], group = size[3], keys = std::max<int64_t>(rows.longest(), 1);
  const at::TensorOptions index_options = at::TensorOptions(at::kLong).device(heads.query.device());
  const at::Tensor past = at::tensor(rows.past, at::kLong).to(heads.query.device());
  const at::Tensor last = past.unsqueeze(1) + at::arange(length, index_options).repeat_interleave(group);
  const at::Tensor positions = at::arange(keys, index_options);
  at::Tensor unseen = positions > last.unsqueeze(2);  // [rows, length · group, keys]
  if (rows.window > 0) unseen = unseen.logical_or(positions <= last.unsqueeze(2) - rows.window);
  const auto every = [](const at::Tensor& t) { return t.to(at::kFloat).flatten(0, 1); };  // [rows · kv_heads, …]
  const at::Tensor key = every(heads.key.narrow(2, 0, keys)), value = every(heads.value.narrow(2, 0, keys));
  at::Tensor scores = at::bmm(every(heads.query.flatten(2, 3)), key.transpose(1, 2)) * scale;
  if (rows.soft_cap > 0) scores = (scores / rows.soft_cap).tanh() * rows.soft_cap;
  const at::Tensor seen =
      scores.unflatten(0, {size[0], size[1]}).masked_fill(unseen.unsqueeze(1), -std::numeric_limits<float>::infinity());
  const at::Tensor mixed = at::bmm(at::softmax(seen, -1).flatten(0, 1), value);
  const at::Tensor output = mixed.view({size[0], size[1], length, group, heads.value.size(3)});
  if (rows.sinks.defined()) ApplySinks({output, at::logsumexp(seen, -1).view(output.sizes().slice(0, 4))}, rows.sinks);
  return output;
}

// Rows that start together, such as prompts; otherwise as above.
at::Tensor FlashOrMasked(const Heads& heads, double scale, const CachedRows& rows) {
  const int64_t past = rows.past.empty() ? 0 : rows.past[0], length = heads.query.size(2);
  const bool together = std::all_of(rows.past.begin(), rows.past.end(), [&](int64_t p) { return p == past; });
  return together && past + length <= heads.key.size(2) ? FlashCached(heads, scale, past) : Masked(heads, scale, rows);
}

std::string WhyNoCachedLoops(const Heads& heads) { return WhyNoLoops(heads.query); }

const ImplementationList<Heads, decltype(&Masked)> kCachedAttention{"cached_attention",
                                                                    {{"cpu", WhyNoCachedLoops, Tiled},
                                                                     {"flash", WhyNotFlash, FlashOrMasked},
                                                                     {"torch_npu", WhyNotFusedInfer, NpuCached},
                                                                     {"npu_varlen", WhyNotVarLen, NpuCachedVarLen},
                                                                     {"aten", nullptr, Masked}}};

// Those that take windows, under the same name and switch.
const ImplementationList<Heads, decltype(&Masked)> kWindowed{
    "cached_attention",
    {{"cpu", WhyNoCachedLoops, Tiled}, {"npu_varlen", WhyNotVarLen, NpuCachedVarLen}, {"aten", nullptr, Masked}}};

// Those that take sinks.
const ImplementationList<Heads, decltype(&Masked)> kSinkRows{
    "cached_attention",
    {{"cpu", WhyNoCachedLoops, Tiled}, {"npu_varlen", WhyNotVarLen, NpuCachedVarLen}, {"aten", nullptr, Masked}}};

// Those that take soft caps, with sinks or without.
const ImplementationList<Heads, decltype(&Masked)> kCappedRows{
    "cached_attention", {{"cpu", WhyNoCachedLoops, Tiled}, {"aten", nullptr, Masked}}};

}  // namespace

int64_t CachedRows::longest() const {
  int64_t most = 0;
  for (size_t row = 0; row < past.size(); ++row) most = std::max(most, past[row] + fresh[row]);
  return most;
}

RowTiles TilesOf(const CachedRows& rows) {
  RowTiles tiles(rows.past.size());
  for (size_t row = 0; row < tiles.size(); ++row) {
    const int64_t past = rows.past[row], fresh = rows.fresh[row];
    const AttentionTile all{.queries = fresh,
                            .keys = past + fresh,
                            .first = past,
                            .window = rows.window,
                            .soft_cap = static_cast<float>(rows.soft_cap)};
    if (fresh > 0) tiles[row].push_back(Trimmed(all));
  }
  return tiles;
}

at::Tensor AttendCached(const Heads& all, double scale, const CachedRows& rows) {
  if (rows.soft_cap > 0) return kCappedRows.Choose(all).forward(all, scale, rows);
  if (rows.sinks.defined()) return kSinkRows.Choose(all).forward(all, scale, rows);
  const bool hides = rows.window > 0 && rows.longest() > rows.window;
  return (hides ? kWindowed : kCachedAttention).Choose(all).forward(all, scale, rows);
}

at::Tensor CachedAttention(const Heads& heads, double scale, const CachedRows& rows, KeyValues& cache) {
  TRIREME_CHECK(static_cast<int64_t>(rows.past.size()) == heads.query.size(0) && rows.past.size() == rows.fresh.size());
  Append(cache, heads, rows);
  const at::Tensor output = AttendCached({heads.query.contiguous(), cache.key, cache.value}, scale, rows);
  return output.to(heads.query.scalar_type()).transpose(1, 2).reshape({heads.query.size(0) * heads.query.size(2), -1});
}

namespace {

// One new token in each of up to 64 rows with up to 512 cached tokens; eight heads of 128, two key-value
// heads.
std::vector<BenchCase> BenchCached(const BenchSize& s) {
  constexpr int64_t kDim = 128, kKvHeads = 2, kGroup = 4;
  const int64_t rows = std::min<int64_t>(s.rows, 64), past = std::min<int64_t>(s.columns, 512);
  const Heads heads{BenchInput({rows, kKvHeads, 1, kGroup, kDim}, s.type),
                    BenchInput({rows, kKvHeads, 1, kDim}, s.type), BenchInput({rows, kKvHeads, 1, kDim}, s.type)};
  const KeyValues cache{BenchInput({rows, kKvHeads, past + 1, kDim}, s.type),
                        BenchInput({rows, kKvHeads, past + 1, kDim}, s.type)};
  const CachedRows counts{std::vector<int64_t>(rows, past), std::vector<int64_t>(rows, 1)};
  return {{.forward_bytes = static_cast<double>(2 * cache.key.nbytes() + 2 * heads.query.nbytes()),
           .run =
               [=] {
                 KeyValues mine = cache;
                 CachedAttention(heads, 1 / std::sqrt(static_cast<double>(kDim)), counts, mine);
                 return BenchCase::Tensors{};
               },
           .shape = {rows, past, kKvHeads * kGroup, kDim}}};
}

}  // namespace

Operator operators::cached_attention() {
  return {.name = kCachedAttention.op(),
          .summary = "attention of new tokens over cached keys and values, in generation",
          .implementations = kCachedAttention.names(),
          .report = [](const at::Tensor& like) { return ReportHeadSizes(kCachedAttention, like); },
          .bench = BenchCached};
}

}  // namespace trireme
