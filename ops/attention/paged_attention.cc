#include "ops/attention/paged_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"
#include "ops/attention/cached_attention.h"
#include "ops/attention/decode_attention.h"
#include "ops/attention/paged_decode.h"
#include "ops/operator.h"

namespace trireme {
namespace {

// Calls work(tokens done, block, offset in the block, tokens of the run) for each run of a row's tokens
// [first, first + count) that is in one block.
template <typename Work>
void ForEachRun(const PagedRow& row, int64_t block_size, int64_t first, int64_t count, const Work& work) {
  for (int64_t done = 0; done < count;) {
    const int64_t position = first + done, offset = position % block_size;
    const int64_t run = std::min(block_size - offset, count - done);
    work(done, row.blocks.at(static_cast<size_t>(position / block_size)), offset, run);
    done += run;
  }
}

// Zeroed on devices, where whole blocks are read: what padding attends to must be finite.
void GrowBlocks(at::Tensor& pool, const at::Tensor& fresh, const PagedRows& rows) {
  if (pool.defined() && pool.size(0) >= rows.blocks) return;
  const std::vector<int64_t> shape = {rows.blocks, fresh.size(1), rows.block_size, fresh.size(3)};
  const at::Tensor larger = fresh.is_cpu() ? at::empty(shape, fresh.options()) : at::zeros(shape, fresh.options());
  if (pool.defined()) larger.narrow(0, 0, pool.size(0)).copy_(pool);
  pool = larger;
}

char* Bytes(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }

// On a GPU: all rows in one launch.
void StoreAtOnce(const Heads& fresh, const PagedKeyValues& cache, const PagedRows& rows, PagedScratch& scratch) {
  if (!scratch.slots.defined()) {
    std::vector<int64_t> slots;
    for (const PagedRow& row : rows.rows) {
      for (int64_t position = row.past; position < row.past + row.fresh; ++position) {
        slots.push_back(row.blocks.at(static_cast<size_t>(position / rows.block_size)) * rows.block_size +
                        position % rows.block_size);
      }
    }
    scratch.slots = Upload(at::tensor(slots, at::kLong), cache.key.device());
  }
  if (WhyNoStoreKernel(fresh, cache, rows.block_size).empty())
    return StoreByKernel(fresh, cache, rows.block_size, scratch.slots);
  const int64_t tokens = scratch.slots.size(0);
  const auto store = [&](const at::Tensor& pool, const at::Tensor& all) {
    const at::Tensor by_token = all[0].narrow(1, 0, tokens).transpose(0, 1);  // [tokens, kv_heads, dim]
    pool.transpose(1, 2).index_put_(
        {scratch.slots.floor_divide(rows.block_size), scratch.slots.remainder(rows.block_size)}, by_token);
  };
  store(cache.key, fresh.key);
  if (fresh.value.defined()) store(cache.value, fresh.value);
}

// fresh: [1, kv_heads, tokens, dim]
void Store(const at::Tensor& pool, const at::Tensor& fresh, const PagedRows& rows) {
  const int64_t heads = fresh.size(1), tokens = fresh.size(2), size = rows.block_size;
  const int64_t bytes = fresh.size(3) * static_cast<int64_t>(fresh.element_size());
  const at::Tensor dense = fresh.is_cpu() ? fresh.contiguous() : fresh;
  int64_t begin = 0;
  for (const PagedRow& row : rows.rows) {
    ForEachRun(row, size, row.past, row.fresh, [&](int64_t done, int64_t block, int64_t offset, int64_t run) {
      if (!fresh.is_cpu()) {
        pool[block].narrow(1, offset, run).copy_(fresh[0].narrow(1, begin + done, run));
        return;
      }
      for (int64_t head = 0; head < heads; ++head) {
        std::memcpy(Bytes(pool) + ((block * heads + head) * size + offset) * bytes,
                    Bytes(dense) + (head * tokens + begin + done) * bytes, static_cast<size_t>(run * bytes));
      }
    });
    begin += row.fresh;
  }
}

void Store(const Heads& fresh, PagedKeyValues& cache, const PagedRows& rows, PagedScratch& scratch) {
  GrowBlocks(cache.key, fresh.key, rows);
  if (fresh.value.defined()) GrowBlocks(cache.value, fresh.value, rows);
  if (fresh.key.is_cuda()) return StoreAtOnce(fresh, cache, rows, scratch);
  Store(cache.key, fresh.key, rows);
  if (fresh.value.defined()) Store(cache.value, fresh.value, rows);
}

// [rows, kv_heads, capacity, dim] of the scratch memory, which is finite everywhere.
at::Tensor LaidOut(at::Tensor& scratch, at::IntArrayRef shape, const at::TensorOptions& options) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const bool fits = scratch.defined() && scratch.numel() >= count && scratch.scalar_type() == options.dtype();
  if (!fits) scratch = at::zeros({count + count / 4}, options);
  return scratch.narrow(0, 0, count).view(shape);
}

// The first `dim` elements of the rows' keys or values, copied out of their blocks by the host's cores.
at::Tensor GatherOnHost(const at::Tensor& pool, int64_t dim, int64_t size, at::ArrayRef<PagedRow> group,
                        int64_t capacity, at::Tensor& scratch) {
  const int64_t heads = pool.size(1);
  const auto element = static_cast<int64_t>(pool.element_size());
  const int64_t line = pool.size(3) * element, wanted = dim * element;
  const at::Tensor all = LaidOut(scratch, {static_cast<int64_t>(group.size()), heads, capacity, dim}, pool.options());
  at::parallel_for(0, static_cast<int64_t>(group.size()) * heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const PagedRow& row = group[static_cast<size_t>(item / heads)];
      char* to = Bytes(all) + item * capacity * wanted;
      ForEachRun(row, size, 0, row.past + row.fresh, [&](int64_t done, int64_t block, int64_t, int64_t run) {
        const char* from = Bytes(pool) + (block * heads + item % heads) * size * line;
        if (line == wanted) {
          std::memcpy(to + done * wanted, from, static_cast<size_t>(run * wanted));
          return;
        }
        for (int64_t i = 0; i < run; ++i) {
          std::memcpy(to + (done + i) * wanted, from + i * line, static_cast<size_t>(wanted));
        }
      });
    }
  });
  return all;
}

// The rows' blocks one after another; rows with fewer of them repeat the first one, which no token attends
// to.
at::Tensor TableOf(at::ArrayRef<PagedRow> group, int64_t columns) {
  std::vector<int64_t> table;
  for (const PagedRow& row : group) {
    for (size_t i = 0; i < static_cast<size_t>(columns); ++i)
      table.push_back(row.blocks[i < row.blocks.size() ? i : 0]);
  }
  return at::tensor(table, at::kLong);
}

// The same on a device: whole blocks.
at::Tensor GatherOnDevice(const at::Tensor& pool, int64_t dim, const at::Tensor& table, int64_t columns) {
  return pool.index_select(0, table)
      .narrow(3, 0, dim)
      .unflatten(0, {table.size(0) / columns, columns})  // [rows, columns, kv_heads, block_size, dim]
      .transpose(1, 2)
      .flatten(2, 3)
      .contiguous();
}

// [1, kv_heads, tokens, …] to [rows, kv_heads, length, …] for rows of equal length that begin there.
at::Tensor ByRow(const at::Tensor& all, int64_t begin, at::ArrayRef<PagedRow> group) {
  const auto rows = static_cast<int64_t>(group.size());
  const at::Tensor mine = all.narrow(2, begin, rows * group[0].fresh);
  return rows == 1 ? mine.contiguous() : mine[0].transpose(0, 1).unsqueeze(2).contiguous();
}

at::Tensor Gather(const at::Tensor& pool, int64_t dim, const PagedGroup& c, int64_t capacity, at::Tensor& memory) {
  if (pool.is_cpu()) return GatherOnHost(pool, dim, c.block_size, c.rows, capacity, memory);
  const int64_t columns = (capacity + c.block_size - 1) / c.block_size;
  at::Tensor& table = c.scratch.gathered[c.first_row];
  if (!table.defined()) table = Upload(TableOf(c.rows, columns), pool.device());
  return GatherOnDevice(pool, dim, table, columns);
}

// A row that starts needs nothing from its blocks.
bool Starts(at::ArrayRef<PagedRow> group) { return group.size() == 1 && group[0].past == 0; }

at::Tensor KeysOf(const PagedGroup& c, int64_t capacity) {
  if (Starts(c.rows)) return ByRow(c.heads.key, c.begin, c.rows);
  return Gather(c.cache.key, c.cache.key.size(3), c, capacity, c.scratch.key);
}
at::Tensor ValuesOf(const PagedGroup& c, int64_t capacity) {
  const at::Tensor& fresh = c.heads.value.defined() ? c.heads.value : c.heads.key;
  if (Starts(c.rows)) return ByRow(fresh.narrow(3, 0, c.value_dim), c.begin, c.rows);
  return Gather(c.cache.value.defined() ? c.cache.value : c.cache.key, c.value_dim, c, capacity, c.scratch.value);
}

// The rows' keys and values side by side, for cached_attention.
at::Tensor GatheredPages(const PagedGroup& c) {
  CachedRows rows{.past = {}, .fresh = {}, .window = c.window, .soft_cap = c.soft_cap};
  if (c.sinks.defined()) rows.sinks = c.sinks.view({c.heads.query.size(1), c.heads.query.size(3)});
  for (const PagedRow& row : c.rows) {
    rows.past.push_back(row.past);
    rows.fresh.push_back(row.fresh);
  }
  const Heads all{ByRow(c.heads.query, c.begin, c.rows), KeysOf(c, rows.longest()), ValuesOf(c, rows.longest())};
  return AttendCached(all, c.scale, rows)
      .to(c.heads.query.scalar_type())
      .transpose(1, 2)
      .reshape({static_cast<int64_t>(c.rows.size()) * c.rows[0].fresh, -1});
}

const ImplementationList<PagedGroup, decltype(&GatheredPages)> kPagedAttention{
    "paged_attention",
    {{"cpu", WhyNoDecodeLoops, DecodeByLoops},
     {"cuda", WhyNoDecodeKernel, DecodeByKernel},
     {"torch_npu", WhyNotNpuDecode, NpuDecode},
     {"aten", nullptr, GatheredPages}}};

// Rows of one new token together, others one by one.
size_t GroupFrom(const std::vector<PagedRow>& rows, size_t first) {
  size_t count = 1;
  const auto single = [&](size_t row) { return row < rows.size() && rows[row].fresh == 1; };
  while (single(first) && single(first + count)) ++count;
  return count;
}

}  // namespace

at::Tensor PagedAttention(const Heads& heads, int64_t value_dim, double scale, const PagedRows& rows,
                          PagedKeyValues& cache, PagedScratch& scratch, int64_t window, double soft_cap,
                          const at::Tensor& sinks) {
  TRIREME_CHECK(heads.query.size(0) == 1);
  if (!rows.rows.empty()) Store(heads, cache, rows, scratch);
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (size_t row = 0; row < rows.rows.size();) {
    const at::ArrayRef<PagedRow> group(&rows.rows[row], GroupFrom(rows.rows, row));
    const PagedGroup given{heads,   begin,  row,      value_dim,      scale, rows.block_size, group, cache,
                           scratch, window, soft_cap, rows.most_keys, sinks};
    // Those that read blocks in place know no soft cap and no sinks.
    parts.push_back(soft_cap > 0 || sinks.defined() ? GatheredPages(given)
                                                    : kPagedAttention.Choose(given).forward(given));
    begin += parts.back().size(0);
    row += group.size();
  }
  const int64_t tokens = heads.query.size(2);
  TRIREME_CHECK(begin <= tokens) << begin << " tokens of rows among " << tokens;
  if (begin < tokens) {
    const int64_t width = heads.query.size(1) * heads.query.size(3) * value_dim;
    parts.push_back(at::zeros({tokens - begin, width}, heads.query.options()));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

namespace {

// One new token in each of up to 64 rows with up to 512 cached tokens, in blocks of 32; eight heads of 128, two
// key-value heads.
std::vector<BenchCase> BenchPaged(const BenchSize& s) {
  constexpr int64_t kDim = 128, kKvHeads = 2, kGroup = 4, kBlock = 32;
  const int64_t count = std::min<int64_t>(s.rows, 64), past = std::min<int64_t>(s.columns, 512);
  const int64_t blocks = past / kBlock + 1;
  const Heads heads{BenchInput({1, kKvHeads, count, kGroup, kDim}, s.type),
                    BenchInput({1, kKvHeads, count, kDim}, s.type), BenchInput({1, kKvHeads, count, kDim}, s.type)};
  const PagedKeyValues cache{BenchInput({count * blocks, kKvHeads, kBlock, kDim}, s.type),
                             BenchInput({count * blocks, kKvHeads, kBlock, kDim}, s.type)};
  PagedRows rows{.block_size = kBlock, .blocks = count * blocks};
  for (int64_t row = 0; row < count; ++row) {
    PagedRow one{.past = past, .fresh = 1, .blocks = {}};
    for (int64_t i = 0; i < blocks; ++i) one.blocks.push_back(static_cast<int32_t>(i * count + row));
    rows.rows.push_back(std::move(one));
  }
  const auto scratch = std::make_shared<PagedScratch>();
  return {{.forward_bytes = static_cast<double>(2 * cache.key.nbytes() + 2 * heads.query.nbytes()),
           .run =
               [=] {
                 PagedKeyValues mine = cache;
                 scratch->Begin();
                 PagedAttention(heads, kDim, 1 / std::sqrt(static_cast<double>(kDim)), rows, mine, *scratch);
                 return BenchCase::Tensors{};
               },
           .shape = {count, past, kKvHeads * kGroup, kDim}}};
}

CaseReport ReportPagedRows(const at::Tensor& like, int64_t fresh) {
  const Heads heads{at::empty({1, 1, fresh, 1, 128}, like.options()), at::empty({1, 1, fresh, 128}, like.options()),
                    at::empty({1, 1, fresh, 128}, like.options())};
  const PagedRow row{.past = 0, .fresh = fresh, .blocks = {0}};
  const PagedKeyValues cache;
  PagedScratch scratch;
  return kPagedAttention.Report(fresh == 1 ? "[one token per row]" : "[part of a prompt]",
                                {heads, 0, 0, 128, 1, 32, row, cache, scratch});
}

}  // namespace

Operator operators::paged_attention() {
  return {
      .name = kPagedAttention.op(),
      .summary = "attention of a step's new tokens over the blocks of their rows, in generation",
      .implementations = kPagedAttention.names(),
      .report = [](const at::Tensor& like) { return std::vector{ReportPagedRows(like, 1), ReportPagedRows(like, 2)}; },
      .bench = BenchPaged};
}

}  // namespace trireme
