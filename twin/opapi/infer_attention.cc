// Fused attention of generation: new tokens over cached keys and values, with a length of its own for each
// row; of one token per row also over blocks with a table. Without quantised, shared or rotary parts, which are
// refused by name.
// Training's attention is attention.cc.
#include <ATen/ATen.h>

#include <limits>

#include "twin/opapi/attention_layout.h"
#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

struct InferCall {
  Tensor query, key, value;  // [b, n, s, d]
  Optional<Tensor> mask;     // true: hidden. In modes 0 and 1 the mask itself, in others always the same one
  Ints query_lengths, key_lengths;
  double scale;
  int64_t mode;  // 0: a mask and a band · 1: a mask · 2: causal, aligned top left · 3: bottom right · 4: a band
  int64_t before, after;   // of a band: how far back and ahead a query sees
  Optional<Tensor> table;  // [b, columns]: keys and values are then blocks [blocks, n, block_size, d]
  int64_t block_size;
};

bool IsGiven(const Optional<Tensor>& x) { return x && x->numel() > 0; }

int64_t LengthOf(const Ints& lengths, int64_t row, int64_t whole) {
  if (lengths.empty()) return whole;
  return lengths.size() == 1 ? lengths[0] : lengths.at(static_cast<size_t>(row));
}

// The views of a call's tensors. BNSD_BSND differs in the output alone.
struct InferLayout {
  std::string name;
  int64_t heads, key_heads;

  InferLayout(const std::string& layout, int64_t heads, int64_t key_heads)
      : name(layout), heads(heads), key_heads(key_heads == 0 ? heads : key_heads) {
    TORCH_CHECK(name == "BNSD" || name == "BSND" || name == "BSH" || name == "BNSD_BSND", "layout ", name,
                " is not supported by the CANN twin; BNSD, BSND, BSH and BNSD_BSND are");
  }
  Tensor In(const Tensor& x, int64_t count) const {
    TORCH_CHECK(x.is_contiguous(), "query, key or value is strided; wanted contiguous");
    return twin::Inside(x, name == "BNSD_BSND" ? "BNSD" : name, count);
  }
  Tensor Out(const Tensor& x) const { return twin::Inside(x, name == "BNSD_BSND" ? "BSND" : name, heads); }
};

void RefuseInfer(const InferCall& c, const InferLayout& layout) {
  constexpr int64_t kHead = 512, kPack = 16, kHeads = 256, kGroup = 64, kMask = 2048;
  const auto type = c.query.scalar_type();
  TORCH_CHECK(
      (type == at::kHalf || type == at::kBFloat16) && c.key.scalar_type() == type && c.value.scalar_type() == type,
      "query, key and value are ", type, ", ", c.key.scalar_type(), " and ", c.value.scalar_type(),
      "; wanted fp16 or bf16, equal");
  TORCH_CHECK(c.key.sizes() == c.value.sizes(), "keys ", c.key.sizes(), " and values ", c.value.sizes(),
              "; wanted equal shapes");
  const int64_t dim = c.query.size(3), heads = layout.heads, own = layout.key_heads;
  TORCH_CHECK(dim == c.key.size(3) && dim % kPack == 0 && dim <= kHead, "heads of ", dim, " and ", c.key.size(3),
              "; wanted equal multiples of 16, at most ", kHead);
  TORCH_CHECK(
      heads == c.query.size(1) && own == c.key.size(1) && heads % own == 0 && heads / own <= kGroup && heads <= kHeads,
      heads, " query heads on ", own, "; the tensors have ", c.query.size(1), " and ", c.key.size(1));
  TORCH_CHECK(c.mode >= 0 && c.mode <= 4, "sparse mode ", c.mode, " is not supported by the CANN twin; 0 to 4 are");
  TORCH_CHECK(c.query.size(2) == 1 || c.mode < 2 || (c.mask && c.mask->size(-1) == kMask && c.mask->size(-2) == kMask),
              "sparse mode ", c.mode, " wants the mask of 2048 x 2048");
  TORCH_CHECK(c.mode != 1 || c.mask, "sparse mode 1 wants atten_mask");
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

// The mask of a row. [queries, keys] of one that is [s_q, s_k], [b or 1, s_q, s_k] or [b or 1, 1, s_q, s_k], or [b,
// s_k] where there is one query per row.
Tensor RowMask(const InferCall& c, int64_t row, int64_t queries, int64_t keys) {
  const bool per_row = c.mask->dim() == 2 && c.query.size(2) == 1 && c.mask->size(0) == c.query.size(0);
  const Tensor given = per_row ? c.mask->unsqueeze(1) : c.mask->dim() == 4 ? c.mask->squeeze(1) : *c.mask;
  const Tensor mine = given.dim() == 2 ? given : given[given.size(0) == 1 ? 0 : row];
  TORCH_CHECK(mine.dim() == 2 && mine.size(0) >= queries && mine.size(1) >= keys, "atten_mask ", c.mask->sizes(),
              " with ", queries, " queries and ", keys, " keys of row ", row);
  return mine.narrow(0, 0, queries).narrow(1, 0, keys).to(at::kBool);
}

// What a query does not see; nothing where it sees all. A single query sees all keys in modes 2 and 3.
std::optional<Tensor> HiddenKeys(const InferCall& c, int64_t row, int64_t queries, int64_t keys) {
  if ((c.mode < 2 && !c.mask) || (c.mode != 4 && c.mode >= 2 && (c.query.size(2) == 1 || queries == 1)))
    return std::nullopt;
  // How far a key is ahead of its query, aligned top left in modes 0 and 2, bottom right in others.
  const int64_t offset = c.mode >= 3 ? keys - queries : 0;
  const Tensor ahead = at::arange(keys).unsqueeze(0) - at::arange(queries).unsqueeze(1) - offset;
  if (c.mode == 1) return RowMask(c, row, queries, keys);
  if (c.mode == 2 || c.mode == 3) return ahead > 0;
  const Tensor outside = (ahead > c.after).logical_or(ahead < -c.before);
  return c.mode == 4 ? outside : outside.logical_or(RowMask(c, row, queries, keys));
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
  const auto hidden = HiddenKeys(c, row, queries, keys);
  std::optional<Tensor> bias;
  if (hidden) {
    bias =
        at::zeros({queries, keys}, c.query.options()).masked_fill_(*hidden, -std::numeric_limits<double>::infinity());
  }
  const Tensor own = c.query[row].narrow(1, 0, queries).unsqueeze(0);
  const Tensor result = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      own, of_row(row_key), of_row(row_value), 0, false, bias, c.scale))[0];
  out[row].narrow(1, 0, queries).copy_(hidden ? result.masked_fill(hidden->all(-1, true), 0) : result);
}

void Infer(const InferCall& call, const InferLayout& layout, const Tensor& out) {
  RefuseInfer(call, layout);
  if (IsGiven(call.table)) RefuseTable(call);
  const Tensor into = layout.Out(out);
  for (int64_t row = 0; row < call.query.size(0); ++row) InferRow(call, row, into);
}

void RefuseParts(std::initializer_list<std::pair<const char*, bool>> parts) {
  for (const auto& [name, given] : parts)
    TORCH_CHECK(!given, "attention with ", name, " is not supported by the CANN twin");
}

void RefuseLists(const Tensors& keys, const Tensors& values) {
  TORCH_CHECK(keys.size() == 1 && values.size() == 1, "a list of keys per row is not supported by the CANN twin");
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
      Optional<Tensor> key_rope, Optional<Tensor> key_rope_antiquant_scale, int64_t heads, double scale, int64_t before,
      int64_t after, std::string layout, int64_t key_heads, int64_t mode, int64_t, int64_t block_size, int64_t,
      bool with_lse, int64_t, int64_t, Tensor out, Tensor) {
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
     RefuseLists(keys, values);
     const InferLayout order(layout, heads, key_heads);
     const InferCall call{.query = order.In(query, order.heads),
                          .key = order.In(keys[0], order.key_heads),
                          .value = order.In(values[0], order.key_heads),
                          .mask = mask,
                          .query_lengths = query_lengths.value_or(Ints{}),
                          .key_lengths = key_lengths.value_or(Ints{}),
                          .scale = scale,
                          .mode = mode,
                          .before = before,
                          .after = after,
                          .table = block_table,
                          .block_size = block_size};
     Infer(call, order, out);
   })

// Many new tokens per row.
OP(aclnnPromptFlashAttentionV3,
   [](Tensor query, Tensor key, Tensor value, Optional<Tensor> shift, Optional<Tensor> mask,
      Optional<Ints> query_lengths, Optional<Ints> key_lengths, Optional<Tensor> dequant_scale1,
      Optional<Tensor> quant_scale1, Optional<Tensor> dequant_scale2, Optional<Tensor> quant_scale2,
      Optional<Tensor> quant_offset2, int64_t heads, double scale, int64_t before, int64_t after, std::string layout,
      int64_t key_heads, int64_t mode, int64_t, Tensor out) {
     RefuseParts({{"pse_shift", IsGiven(shift)},
                  {"quantised products", IsGiven(dequant_scale1) || IsGiven(quant_scale1) || IsGiven(dequant_scale2) ||
                                             IsGiven(quant_scale2) || IsGiven(quant_offset2)}});
     const InferLayout order(layout, heads, key_heads);
     const InferCall call{.query = order.In(query, order.heads),
                          .key = order.In(key, order.key_heads),
                          .value = order.In(value, order.key_heads),
                          .mask = mask,
                          .query_lengths = query_lengths.value_or(Ints{}),
                          .key_lengths = key_lengths.value_or(Ints{}),
                          .scale = scale,
                          .mode = mode,
                          .before = before,
                          .after = after,
                          .table = std::nullopt,
                          .block_size = 0};
     Infer(call, order, out);
   })

// One new token per row.
OP(aclnnIncreFlashAttentionV4,
   [](Tensor query, Tensors keys, Tensors values, Optional<Tensor> shift, Optional<Tensor> mask,
      Optional<Ints> key_lengths, Optional<Tensor> dequant_scale1, Optional<Tensor> quant_scale1,
      Optional<Tensor> dequant_scale2, Optional<Tensor> quant_scale2, Optional<Tensor> quant_offset2,
      Optional<Tensor> antiquant_scale, Optional<Tensor> antiquant_offset, Optional<Tensor> block_table,
      Optional<Tensor> key_padding, int64_t heads, double scale, std::string layout, int64_t key_heads,
      int64_t block_size, int64_t, Tensor out) {
     RefuseParts({{"pse_shift", IsGiven(shift)},
                  {"quantised products", IsGiven(dequant_scale1) || IsGiven(quant_scale1) || IsGiven(dequant_scale2) ||
                                             IsGiven(quant_scale2) || IsGiven(quant_offset2)},
                  {"a quantised cache", IsGiven(antiquant_scale) || IsGiven(antiquant_offset)},
                  {"padding on the left", IsGiven(key_padding)}});
     RefuseLists(keys, values);
     const InferLayout order(layout, heads, key_heads);
     constexpr int64_t kAll = std::numeric_limits<int32_t>::max();
     const InferCall call{.query = order.In(query, order.heads),
                          .key = order.In(keys[0], order.key_heads),
                          .value = order.In(values[0], order.key_heads),
                          .mask = mask,
                          .query_lengths = {},
                          .key_lengths = key_lengths.value_or(Ints{}),
                          .scale = scale,
                          .mode = 0,
                          .before = kAll,
                          .after = kAll,
                          .table = block_table,
                          .block_size = block_size};
     TORCH_CHECK(call.query.size(2) == 1, call.query.size(2), " new tokens per row; wanted 1");
     Infer(call, order, out);
   })
