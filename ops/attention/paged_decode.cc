#include "ops/attention/paged_decode.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/tensor/device_copies.h"
#include "ops/attention/cpu_paged.h"
#include "ops/attention/npu.h"
#include "ops/attention/npu_attention.h"
#include "ops/choose.h"
#include "ops/element_types.h"

namespace trireme {
namespace {

// Query heads of one call: as many as share a key-value head, in parts where that would leave cores idle.
constexpr int64_t kHeadsPerCall = 16;

template <typename T>
cpu::HeadBlocks<T> BlocksOf(const PagedGroup& c, const PagedRow& row, int64_t kv_head) {
  const at::Tensor &key = c.cache.key, &value = c.cache.value.defined() ? c.cache.value : c.cache.key;
  return {.key = Data<T>(key) + kv_head * key.stride(1),
          .value = Data<T>(value) + kv_head * value.stride(1),
          .key_step = key.stride(0),
          .value_step = value.stride(0),
          .value_stride = value.stride(2),
          .table = row.blocks.data(),
          .block_size = c.block_size};
}

template <typename T>
void DecodeRows(const PagedGroup& c, const at::Tensor& query, const at::Tensor& output) {
  const int64_t kv_heads = query.size(1), tokens = query.size(2), group = query.size(3), dim = query.size(4);
  const int64_t parts = (group + kHeadsPerCall - 1) / kHeadsPerCall, items = kv_heads * parts;
  at::parallel_for(0, static_cast<int64_t>(c.rows.size()) * items, 1, [&](int64_t begin, int64_t end) {
    cpu::PagedMemory memory;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / items, kv_head = item % items / parts;
      const int64_t first = item % parts * kHeadsPerCall, heads = std::min(kHeadsPerCall, group - first);
      const PagedRow& mine = c.rows[static_cast<size_t>(row)];
      cpu::AttendBlocks(Data<T>(query) + (((kv_head * tokens) + c.begin + row) * group + first) * dim,
                        BlocksOf<T>(c, mine, kv_head),
                        {.heads = heads,
                         .dim = dim,
                         .value_dim = c.value_dim,
                         .keys = mine.past + 1,
                         .scale = static_cast<float>(c.scale)},
                        memory, Data<T>(output) + row * output.size(1) + (kv_head * group + first) * c.value_dim);
    }
  });
}

// A window that a row has not outgrown hides nothing.
std::string WhyNotUnderWindow(const PagedGroup& c) {
  const auto hides = [&](const PagedRow& row) { return row.past + row.fresh > c.window; };
  const bool hidden = c.window > 0 && std::any_of(c.rows.begin(), c.rows.end(), hides);
  return hidden ? "a sliding window hides tokens" : "";
}

}  // namespace

at::Tensor TableOnDevice(const PagedGroup& c, int64_t columns) {
  at::Tensor& table = c.scratch.tables[c.first_row];
  if (table.defined()) return table;
  const auto rows = static_cast<int64_t>(c.rows.size());
  const at::Tensor host = at::zeros({rows, columns}, at::kInt);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int32_t>& blocks = c.rows[static_cast<size_t>(row)].blocks;
    std::copy_n(blocks.begin(), std::min<int64_t>(columns, std::ssize(blocks)), Data<int32_t>(host) + row * columns);
  }
  return table = Upload(host, c.cache.key.device());
}

std::string WhyNoDecodeLoops(const PagedGroup& c) {
  const char* several = c.rows[0].fresh == 1 ? "" : "several new tokens of a row are a gemm";
  return Either(WhyNoLoops(c.heads.query), Either(several, WhyNotUnderWindow(c)));
}

at::Tensor DecodeByLoops(const PagedGroup& c) {
  const at::Tensor query = c.heads.query.contiguous();
  const int64_t width = query.size(1) * query.size(3) * c.value_dim;
  const at::Tensor output = at::empty({static_cast<int64_t>(c.rows.size()), width}, query.options());
  ByType(query, [&](auto type) { DecodeRows<decltype(type)>(c, query, output); });
  return output;
}

std::string WhyNotNpuDecode(const PagedGroup& c) {
  constexpr int64_t kPack = 16, kLargestBlock = 512;
  if (c.rows[0].fresh != 1) return "several new tokens of a row want blocks of 128";
  if (std::string why = WhyNotUnderWindow(c); !why.empty()) return why;
  if (std::string why = WhyNoVendor(c.heads.query); !why.empty()) return why;
  if (!c.heads.value.defined()) return "values are part of the keys";
  if (std::string why = WhyNotFusedInfer(c.heads); !why.empty()) return why;
  if (c.block_size % kPack != 0 || c.block_size > kLargestBlock)
    return Concat("blocks of ", c.block_size, "; the operator takes multiples of 16 up to ", kLargestBlock);
  int64_t blocks = 0;  // rows that share some may have more than there are
  for (const PagedRow& row : c.rows) blocks += row.past / c.block_size + 1;
  const int64_t there = c.cache.key.defined() ? c.cache.key.size(0) : blocks;
  return blocks <= there ? "" : "rows share blocks: the operator wants as many as all tables name";
}

at::Tensor NpuDecode(const PagedGroup& c) {
  const auto rows = static_cast<int64_t>(c.rows.size());
  npu::InferRows counts{std::vector<int64_t>(c.rows.size(), 1), {}};
  for (const PagedRow& row : c.rows) counts.keys.push_back(row.past + 1);
  const int64_t longest = *std::max_element(counts.keys.begin(), counts.keys.end());
  const at::Tensor table = TableOnDevice(c, (longest + c.block_size - 1) / c.block_size);
  // [1, kv_heads, tokens, group, dim] to [rows, heads, 1, dim]
  const at::Tensor query =
      c.heads.query[0].narrow(1, c.begin, rows).transpose(0, 1).flatten(1, 2).unsqueeze(2).contiguous();
  return npu::FusedInferOverBlocks(query, c.cache.key, c.cache.value, table, c.scale, counts).view({rows, -1});
}

}  // namespace trireme
