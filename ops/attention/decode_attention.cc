#include "ops/attention/decode_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"
#include "ops/choose.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"

namespace trireme {
namespace {

cuda::HeadOfToken StridesOf(const at::Tensor& heads) { return {.head = heads.stride(1), .token = heads.stride(2)}; }

// Keys of one thread block, so that there are about four of those for each of a large GPU's processors.
int64_t PartOf(int64_t keys, int64_t blocks) {
  constexpr int64_t kWanted = 528, kLeast = 32, kMost = cuda::kDecodeKeysPerPart;
  const int64_t even = keys * blocks / kWanted;
  return std::clamp((even + kLeast - 1) / kLeast * kLeast, kLeast, kMost);
}

std::string WhyNotShifted(int64_t block_size) {
  const bool power = std::has_single_bit(static_cast<uint64_t>(block_size));
  return power ? "" : Concat("blocks of ", block_size, " tokens; the kernel takes powers of two");
}
int ShiftOf(int64_t block_size) { return std::countr_zero(static_cast<uint64_t>(block_size)); }

int64_t MostKeys(const PagedGroup& c) {
  int64_t most = c.most_keys;
  for (const PagedRow& row : c.rows) most = std::max(most, row.past + 1);
  return most;
}

}  // namespace

at::Tensor DecodeTable(at::ArrayRef<PagedRow> rows, int64_t columns) {
  const at::Tensor table = at::zeros({static_cast<int64_t>(rows.size()), 1 + columns}, at::kInt);
  auto* line = Data<int32_t>(table);
  for (const PagedRow& row : rows) {
    line[0] = static_cast<int32_t>(row.past + 1);
    std::copy_n(row.blocks.begin(), std::min<int64_t>(columns, std::ssize(row.blocks)), line + 1);
    line += 1 + columns;
  }
  return table;
}

std::string WhyNoStoreKernel(const Heads& fresh, const PagedKeyValues& cache, int64_t block_size) {
  if (std::string why = WhyNoCudaKernel(cache.key); !why.empty()) return why;
  if (std::string why = WhyNotShifted(block_size); !why.empty()) return why;
  const auto same = [](const at::Tensor& from, const at::Tensor& to) {
    return !from.defined() || (from.stride(3) == 1 && from.scalar_type() == to.scalar_type());
  };
  return same(fresh.key, cache.key) && same(fresh.value, cache.value)
             ? ""
             : "keys and values are strided, or of another type than the cache";
}

void StoreByKernel(const Heads& fresh, const PagedKeyValues& cache, int64_t block_size, const at::Tensor& slots) {
  const bool values = fresh.value.defined();
  CheckLaunch(CudaKernels().store_tokens({.fresh_key = fresh.key.data_ptr(),
                                          .fresh_value = values ? fresh.value.data_ptr() : nullptr,
                                          .key_strides = StridesOf(fresh.key),
                                          .value_strides = StridesOf(values ? fresh.value : fresh.key),
                                          .key = cache.key.data_ptr(),
                                          .value = values ? cache.value.data_ptr() : nullptr,
                                          .slots = Data<int64_t>(slots),
                                          .tokens = slots.size(0),
                                          .kv_heads = fresh.key.size(1),
                                          .dim = fresh.key.size(3),
                                          .value_dim = values ? fresh.value.size(3) : 0,
                                          .block_shift = ShiftOf(block_size)},
                                         IsBf16(cache.key), CudaStream()),
              "paged_attention");
}

std::string WhyNoDecodeKernel(const PagedGroup& c) {
  if (c.rows[0].fresh != 1) return "several new tokens of a row";
  const at::Tensor& read = c.cache.key.defined() ? c.cache.key : c.heads.query;
  if (std::string why = WhyNoCudaKernel(read); !why.empty()) return why;
  if (std::string why = WhyNotShifted(c.block_size); !why.empty()) return why;
  if (!c.heads.value.defined()) return "values are part of the keys";
  const int64_t dim = c.heads.key.size(3);
  if (c.value_dim != dim) return "values differ in size from keys";
  if (dim != 64 && dim != 128 && dim != 256) return Concat("heads of ", dim, "; the kernel takes 64, 128 and 256");
  return "";
}

at::Tensor DecodeByKernel(const PagedGroup& c) {
  const at::Tensor query = c.heads.query.contiguous();
  const int64_t kv_heads = query.size(1), group = query.size(3), dim = query.size(4);
  const auto rows = static_cast<int64_t>(c.rows.size());
  const int64_t most = MostKeys(c), longest = c.window > 0 ? std::min(most, c.window) : most;
  const int64_t columns = (most + c.block_size - 1) / c.block_size;
  at::Tensor& table = c.scratch.tables[c.first_row];
  if (!table.defined()) table = Upload(DecodeTable(c.rows, columns), query.device());
  const int64_t group_parts = (group + cuda::kDecodeGroup - 1) / cuda::kDecodeGroup;
  const int64_t part = PartOf(longest, rows * kv_heads * group_parts), splits = (longest + part - 1) / part;
  const at::Tensor output = at::empty({rows, kv_heads * group * dim}, query.options());
  at::Tensor partial;
  if (splits > 1) partial = at::empty({rows * kv_heads * group, splits, dim + 2}, query.options().dtype(at::kFloat));
  CheckLaunch(CudaKernels().decode_attention({.query = query.select(2, c.begin).data_ptr(),
                                              .query_strides = StridesOf(query),
                                              .key = c.cache.key.data_ptr(),
                                              .value = c.cache.value.data_ptr(),
                                              .output = output.data_ptr(),
                                              .partial = splits == 1 ? nullptr : Data<float>(partial),
                                              .table = Data<int32_t>(table),
                                              .rows = rows,
                                              .kv_heads = kv_heads,
                                              .group = group,
                                              .dim = dim,
                                              .columns = columns,
                                              .block_stride = c.cache.key.stride(0),
                                              .block_shift = ShiftOf(c.block_size),
                                              .window = static_cast<int>(c.window),
                                              .splits = static_cast<int>(splits),
                                              .part = static_cast<int>(part),
                                              .scale = static_cast<float>(c.scale)},
                                             IsBf16(query), CudaStream()),
              "paged_attention");
  return output;
}

}  // namespace trireme
