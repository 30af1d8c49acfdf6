#include "ops/attention/paged_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "ops/attention/cached_attention.h"

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
  const at::Tensor larger =
      fresh.is_cpu() ? at::empty(shape, fresh.options()) : at::zeros(shape, fresh.options());
  if (pool.defined()) larger.narrow(0, 0, pool.size(0)).copy_(pool);
  pool = larger;
}

char* Bytes(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }

// On a GPU: all rows in one launch.
void StoreAtOnce(const at::Tensor& pool, const at::Tensor& fresh, const PagedRows& rows, PagedScratch& scratch) {
  if (!scratch.blocks.defined()) {
    std::vector<int64_t> blocks, offsets;
    for (const PagedRow& row : rows.rows) {
      for (int64_t position = row.past; position < row.past + row.fresh; ++position) {
        blocks.push_back(row.blocks.at(static_cast<size_t>(position / rows.block_size)));
        offsets.push_back(position % rows.block_size);
      }
    }
    scratch.blocks = at::tensor(blocks, at::kLong).to(pool.device());
    scratch.offsets = at::tensor(offsets, at::kLong).to(pool.device());
  }
  const at::Tensor by_token = fresh[0].narrow(1, 0, scratch.blocks.size(0)).transpose(0, 1);  // [tokens, kv_heads, dim]
  pool.transpose(1, 2).index_put_({scratch.blocks, scratch.offsets}, by_token);
}

// fresh: [1, kv_heads, tokens, dim]
void Store(at::Tensor& pool, const at::Tensor& fresh, const PagedRows& rows, PagedScratch& scratch) {
  GrowBlocks(pool, fresh, rows);
  if (fresh.is_cuda()) return StoreAtOnce(pool, fresh, rows, scratch);
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

// [rows, kv_heads, capacity, dim] of the scratch memory, which is finite everywhere.
at::Tensor LaidOut(at::Tensor& scratch, at::IntArrayRef shape, const at::TensorOptions& options) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const bool fits = scratch.defined() && scratch.numel() >= count && scratch.scalar_type() == options.dtype();
  if (!fits) scratch = at::zeros({count + count / 4}, options);
  return scratch.narrow(0, 0, count).view(shape);
}

// The first `dim` elements of the rows' keys or values, copied out of their blocks by the host's cores.
at::Tensor GatherOnHost(const at::Tensor& pool, int64_t dim, const PagedRows& rows,
                        at::ArrayRef<PagedRow> group, int64_t capacity, at::Tensor& scratch) {
  const int64_t heads = pool.size(1), size = rows.block_size;
  const auto element = static_cast<int64_t>(pool.element_size());
  const int64_t line = pool.size(3) * element, wanted = dim * element;
  const at::Tensor all =
      LaidOut(scratch, {static_cast<int64_t>(group.size()), heads, capacity, dim}, pool.options());
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

class PagedPass {
 public:
  PagedPass(const Heads& heads, int64_t value_dim, double scale, const PagedRows& rows, PagedKeyValues& cache,
            PagedScratch& scratch, int64_t window)
      : heads_(heads),
        value_dim_(value_dim),
        scale_(scale),
        window_(window),
        rows_(rows),
        cache_(cache),
        scratch_(scratch) {}

  at::Tensor Run() {
    const int64_t tokens = heads_.query.size(2);
    for (size_t row = 0; row < rows_.rows.size();) row += Attend(row);
    TRIREME_CHECK(begin_ <= tokens) << begin_ << " tokens of rows among " << tokens;
    if (begin_ < tokens) {
      const int64_t width = heads_.query.size(1) * heads_.query.size(3) * value_dim_;
      parts_.push_back(at::zeros({tokens - begin_, width}, heads_.query.options()));
    }
    return parts_.size() == 1 ? parts_[0] : at::cat(parts_);
  }

 private:
  // Rows of one new token together, others one by one; returns how many.
  size_t Attend(size_t first) {
    size_t count = 1;
    const auto single = [&](size_t row) { return row < rows_.rows.size() && rows_.rows[row].fresh == 1; };
    while (single(first) && single(first + count)) ++count;
    const at::ArrayRef<PagedRow> group(&rows_.rows[first], count);
    const int64_t length = group[0].fresh, tokens = static_cast<int64_t>(count) * length;
    CachedRows rows{.past = {}, .fresh = {}, .window = window_};
    for (const PagedRow& row : group) {
      rows.past.push_back(row.past);
      rows.fresh.push_back(row.fresh);
    }
    const Heads all{ByRow(heads_.query, group), Keys(group, rows.longest()), Values(group, rows.longest())};
    parts_.push_back(
        AttendCached(all, scale_, rows).to(heads_.query.scalar_type()).transpose(1, 2).reshape({tokens, -1}));
    begin_ += tokens;
    return count;
  }

  // [1, kv_heads, tokens, …] to [rows, kv_heads, length, …] for the rows that begin here.
  at::Tensor ByRow(const at::Tensor& all, at::ArrayRef<PagedRow> group) const {
    const auto rows = static_cast<int64_t>(group.size());
    const at::Tensor mine = all.narrow(2, begin_, rows * group[0].fresh);
    return rows == 1 ? mine.contiguous() : mine[0].transpose(0, 1).unsqueeze(2).contiguous();
  }

  // A row that starts needs nothing from its blocks.
  static bool Starts(at::ArrayRef<PagedRow> group) { return group.size() == 1 && group[0].past == 0; }

  at::Tensor Keys(at::ArrayRef<PagedRow> group, int64_t capacity) {
    if (Starts(group)) return ByRow(heads_.key, group);
    return Gather(cache_.key, cache_.key.size(3), group, capacity, scratch_.key);
  }
  at::Tensor Values(at::ArrayRef<PagedRow> group, int64_t capacity) {
    const at::Tensor& fresh = heads_.value.defined() ? heads_.value : heads_.key;
    if (Starts(group)) return ByRow(fresh.narrow(3, 0, value_dim_), group);
    return Gather(cache_.value.defined() ? cache_.value : cache_.key, value_dim_, group, capacity,
                  scratch_.value);
  }

  at::Tensor Gather(const at::Tensor& pool, int64_t dim, at::ArrayRef<PagedRow> group, int64_t capacity,
                    at::Tensor& memory) {
    if (pool.is_cpu()) return GatherOnHost(pool, dim, rows_, group, capacity, memory);
    const int64_t columns = (capacity + rows_.block_size - 1) / rows_.block_size;
    at::Tensor& table = scratch_.tables[static_cast<size_t>(group.begin() - rows_.rows.data())];
    if (!table.defined()) table = TableOf(group, columns).to(pool.device());
    return GatherOnDevice(pool, dim, table, columns);
  }

  const Heads& heads_;
  const int64_t value_dim_;
  const double scale_;
  const int64_t window_;
  const PagedRows& rows_;
  PagedKeyValues& cache_;
  PagedScratch& scratch_;
  int64_t begin_ = 0;  // new tokens of the rows so far
  std::vector<at::Tensor> parts_;
};

}  // namespace

at::Tensor PagedAttention(const Heads& heads, int64_t value_dim, double scale, const PagedRows& rows,
                          PagedKeyValues& cache, PagedScratch& scratch, int64_t window) {
  TRIREME_CHECK(heads.query.size(0) == 1);
  if (!rows.rows.empty()) {
    Store(cache.key, heads.key, rows, scratch);
    if (heads.value.defined()) Store(cache.value, heads.value, rows, scratch);
  }
  return PagedPass(heads, value_dim, scale, rows, cache, scratch, window).Run();
}

}  // namespace trireme
