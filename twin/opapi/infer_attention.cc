// Fused attention of generation: new tokens over cached keys and values, with a length of its own for each
// row; of one token per row also over blocks with a table. In layout BNSD, without quantised, shared or rotary
// parts, which are refused by name.
// Training's attention is attention.cc.
#include <ATen/ATen.h>

#include <limits>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

struct InferCall {
  Tensor query, key, value;  // [b, n, s, d]
  Optional<Tensor> mask;
  Ints query_lengths, key_lengths;
  double scale;
  int64_t mode;
  Optional<Tensor> table;  // [b, columns]: keys and values are then blocks [blocks, n, block_size, d]
  int64_t block_size;
};

bool IsGiven(const Optional<Tensor>& x) { return x && x->numel() > 0; }

int64_t LengthOf(const Ints& lengths, int64_t row, int64_t whole) {
  if (lengths.empty()) return whole;
  return lengths.size() == 1 ? lengths[0] : lengths.at(static_cast<size_t>(row));
}

void RefuseInfer(const InferCall& c, int64_t heads, int64_t key_heads, const std::string& layout) {
  constexpr int64_t kHead = 512, kPack = 16, kHeads = 256, kGroup = 64, kMask = 2048;
  TORCH_CHECK(layout == "BNSD", "layout ", layout, " is not supported by the CANN twin; BNSD is");
  const auto type = c.query.scalar_type();
  TORCH_CHECK(
      (type == at::kHalf || type == at::kBFloat16) && c.key.scalar_type() == type && c.value.scalar_type() == type,
      "query, key and value are ", type, ", ", c.key.scalar_type(), " and ", c.value.scalar_type(),
      "; wanted fp16 or bf16, equal");
  TORCH_CHECK(c.query.is_contiguous() && c.key.is_contiguous() && c.value.is_contiguous(),
              "query, key or value is strided; wanted contiguous");
  TORCH_CHECK(c.key.sizes() == c.value.sizes(), "keys ", c.key.sizes(), " and values ", c.value.sizes(),
              "; wanted equal shapes");
  const int64_t dim = c.query.size(3), own = key_heads == 0 ? heads : key_heads;
  TORCH_CHECK(dim == c.key.size(3) && dim % kPack == 0 && dim <= kHead, "heads of ", dim, " and ", c.key.size(3),
              "; wanted equal multiples of 16, at most ", kHead);
  TORCH_CHECK(
      heads == c.query.size(1) && own == c.key.size(1) && heads % own == 0 && heads / own <= kGroup && heads <= kHeads,
      heads, " query heads on ", own, "; the tensors have ", c.query.size(1), " and ", c.key.size(1));
  TORCH_CHECK(c.mode >= 0 && c.mode <= 3, "sparse mode ", c.mode, " is not supported by the CANN twin; 0 to 3 are");
  TORCH_CHECK(c.query.size(2) == 1 || c.mode < 2 || (c.mask && c.mask->size(-1) == kMask && c.mask->size(-2) == kMask),
              "sparse mode ", c.mode, " wants the mask of 2048 x 2048");
  TORCH_CHECK(c.query.size(2) == 1 || c.mode >= 2 || !c.mask, "a mask of its own is not supported by the CANN twin");
}

// The rules of the paged form.
void RefuseTable(const InferCall& c) {
  constexpr int64_t kPack = 16, kLargest = 512;
  const Tensor& table = *c.table;
  TORCH_CHECK(c.query.size(2) == 1, c.query.size(2),
              " new tokens per row with block_table are not supported by the CANN twin; 1 is");
  TORCH_CHECK(c.block_size > 0 && c.block_size <= kLargest && c.block_size % kPack == 0, "block_size ", c.block_size,
              "; wanted a multiple of 16, at most ", kLargest);
  TORCH_CHECK(c.key.dim() == 4 && c.key.size(2) == c.block_size, "keys ", c.key.sizes(), "; wanted [blocks, heads, ",
              c.block_size, ", d]");
  TORCH_CHECK(table.scalar_type() == at::kInt && table.dim() == 2 && table.size(0) == c.query.size(0),
              "block_table is ", table.scalar_type(), " ", table.sizes(), "; wanted int32 [", c.query.size(0),
              ", columns]");
  TORCH_CHECK(!c.key_lengths.empty(), "block_table wants actual_seq_lengths_kv");
  int64_t blocks = 0;
  for (int64_t row = 0; row < c.query.size(0); ++row) {
    const int64_t mine = (LengthOf(c.key_lengths, row, 0) + c.block_size - 1) / c.block_size;
    TORCH_CHECK(mine <= table.size(1), "row ", row, " has ", mine, " blocks; block_table has ", table.size(1),
                " columns");
    blocks += mine;
  }
  TORCH_CHECK(blocks <= c.key.size(0), "the rows have ", blocks, " blocks, the cache ", c.key.size(0));
}

// A row's keys or values side by side: [n, columns · block_size, d].
Tensor RowOfBlocks(const InferCall& c, const Tensor& blocks, int64_t row) {
  const int64_t count = (LengthOf(c.key_lengths, row, 0) + c.block_size - 1) / c.block_size;
  const Tensor mine = (*c.table)[row].narrow(0, 0, count).to(at::kLong);
  if (count > 0) {
    TORCH_CHECK(mine.min().item<int64_t>() >= 0 && mine.max().item<int64_t>() < blocks.size(0), "row ", row,
                " names a block outside of the cache of ", blocks.size(0));
  }
  return blocks.index_select(0, mine).transpose(0, 1).flatten(1, 2);
}

// A single query sees all keys, whatever the mode.
std::optional<Tensor> InferBias(const InferCall& c, int64_t queries, int64_t keys) {
  if (c.query.size(2) == 1 || c.mode < 2 || queries == 1) return std::nullopt;
  const int64_t offset = c.mode == 3 ? keys - queries : 0;
  const Tensor hidden = at::arange(keys).unsqueeze(0) > at::arange(queries).unsqueeze(1) + offset;
  return at::zeros({queries, keys}, c.query.options()).masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

void InferRow(const InferCall& c, int64_t row, const Tensor& out) {
  const int64_t queries = LengthOf(c.query_lengths, row, c.query.size(2));
  const bool paged = IsGiven(c.table);
  const Tensor row_key = paged ? RowOfBlocks(c, c.key, row) : c.key[row];
  const Tensor row_value = paged ? RowOfBlocks(c, c.value, row) : c.value[row];
  const int64_t room = row_key.size(1), keys = LengthOf(c.key_lengths, row, room);
  TORCH_CHECK(queries >= 0 && queries <= c.query.size(2) && keys >= 0 && keys <= room, "row ", row, " has ", queries,
              " queries and ", keys, " keys; there is room for ", c.query.size(2), " and ", room);
  out[row].zero_();
  if (queries == 0 || keys == 0) return;
  const int64_t group = c.query.size(1) / c.key.size(1);
  const auto of_row = [&](const Tensor& x) { return x.narrow(1, 0, keys).repeat_interleave(group, 0).unsqueeze(0); };
  const auto result = at::_scaled_dot_product_flash_attention_for_cpu(c.query[row].narrow(1, 0, queries).unsqueeze(0),
                                                                      of_row(row_key), of_row(row_value), 0, false,
                                                                      InferBias(c, queries, keys), c.scale);
  out[row].narrow(1, 0, queries).copy_(std::get<0>(result)[0]);
}

void RefuseParts(std::initializer_list<std::pair<const char*, bool>> parts) {
  for (const auto& [name, given] : parts)
    TORCH_CHECK(!given, "attention with ", name, " is not supported by the CANN twin");
}

}  // namespace

OP(aclnnFusedInferAttentionScoreV3,
   [](Tensor query, Tensors keys, Tensors values, Optional<Tensor> shift, Optional<Tensor> mask,
      Optional<Ints> query_lengths, Optional<Ints> key_lengths, Optional<Tensor> dequant_scale1,
      Optional<Tensor> quant_scale1, Optional<Tensor> dequant_scale2, Optional<Tensor> quant_scale2,
      Optional<Tensor> quant_offset2, Optional<Tensor> antiquant_scale, Optional<Tensor> antiquant_offset,
      Optional<Tensor> block_table, Optional<Tensor> query_padding, Optional<Tensor> key_padding,
      Optional<Tensor> key_antiquant_scale, Optional<Tensor> key_antiquant_offset,
      Optional<Tensor> value_antiquant_scale, Optional<Tensor> value_antiquant_offset, Optional<Tensor> key_prefix,
      Optional<Tensor> value_prefix, Optional<Ints> prefix_length, Optional<Tensor> query_rope,
      Optional<Tensor> key_rope, Optional<Tensor> key_rope_antiquant_scale, int64_t heads, double scale, int64_t,
      int64_t, std::string layout, int64_t key_heads, int64_t mode, int64_t, int64_t block_size, int64_t, bool with_lse,
      int64_t, int64_t, Tensor out, Tensor) {
     RefuseParts({{"pse_shift", IsGiven(shift)},
                  {"quantised products", IsGiven(dequant_scale1) || IsGiven(quant_scale1) || IsGiven(dequant_scale2) ||
                                             IsGiven(quant_scale2) || IsGiven(quant_offset2)},
                  {"a quantised cache", IsGiven(antiquant_scale) || IsGiven(antiquant_offset) ||
                                            IsGiven(key_antiquant_scale) || IsGiven(key_antiquant_offset) ||
                                            IsGiven(value_antiquant_scale) || IsGiven(value_antiquant_offset)},
                  {"padding on the left", IsGiven(query_padding) || IsGiven(key_padding)},
                  {"a shared prefix", IsGiven(key_prefix) || IsGiven(value_prefix) || prefix_length.has_value()},
                  {"query_rope", IsGiven(query_rope) || IsGiven(key_rope) || IsGiven(key_rope_antiquant_scale)},
                  {"softmax_lse", with_lse}});
     TORCH_CHECK(keys.size() == 1 && values.size() == 1, "a list of keys per row is not supported by the CANN twin");
     const InferCall call{.query = query,
                          .key = keys[0],
                          .value = values[0],
                          .mask = mask,
                          .query_lengths = query_lengths.value_or(Ints{}),
                          .key_lengths = key_lengths.value_or(Ints{}),
                          .scale = scale,
                          .mode = mode,
                          .table = block_table,
                          .block_size = block_size};
     RefuseInfer(call, heads, key_heads, layout);
     if (IsGiven(call.table)) RefuseTable(call);
     for (int64_t row = 0; row < query.size(0); ++row) InferRow(call, row, out);
   })
