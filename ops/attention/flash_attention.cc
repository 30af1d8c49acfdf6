#include "ops/attention/flash_attention.h"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "ops/attention/varlen_calls.h"

namespace trireme {
namespace {

// [rows, kv_heads, length(, group), dim] to [rows · length, heads, dim]: a view where the memory goes token
// by token already.
at::Tensor TokensOf(const at::Tensor& heads) {
  const int64_t count = heads.dim() == 5 ? heads.size(1) * heads.size(3) : heads.size(1);
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), count, heads.size(-1)});
}

// The inverse, as a view; `like` gives the shape.
at::Tensor HeadsOf(const at::Tensor& tokens, const at::Tensor& like) {
  std::vector<int64_t> shape = like.sizes().vec();
  std::swap(shape[1], shape[2]);
  return tokens.view(shape).transpose(1, 2);
}

// The documents of all rows one after another. What no document has (padding) counts as one of its own: the
// operator takes sequences without gaps.
struct Documents {
  std::vector<int32_t> ends = {0};
  std::vector<TokenRun> gaps;
  int64_t longest = 0;

  Documents(const RowTiles& tiles, int64_t length) {
    for (size_t row = 0; row < tiles.size(); ++row) {
      const auto begin = static_cast<int64_t>(row) * length;
      for (const AttentionTile& tile : tiles[row]) {
        Skip(begin + tile.query);
        Add(tile.queries);
      }
      Skip(begin + length);
    }
  }

  at::Tensor EndsOn(const at::Device& device) const {
    return at::tensor(ends, at::kInt).to(device, /*non_blocking=*/true);
  }
  void ClearGaps(const at::Tensor& tokens) const {
    for (const TokenRun& gap : gaps) tokens.narrow(0, gap.begin, gap.size).zero_();
  }

 private:
  void Add(int64_t tokens) {
    if (tokens == 0) return;
    ends.push_back(ends.back() + static_cast<int32_t>(tokens));
    longest = std::max(longest, tokens);
  }
  void Skip(int64_t to) {
    if (to == ends.back()) return;
    gaps.push_back({ends.back(), to - ends.back()});
    Add(to - ends.back());
  }
};

}  // namespace

std::string WhyNotFlash(const Heads& heads) {
  constexpr int64_t kLargest = 256, kPack = 8;
  if (!heads.query.is_cuda()) return "flash attention is for a GPU";
  if (heads.query.scalar_type() != at::kBFloat16 && heads.query.scalar_type() != at::kHalf)
    return "flash attention takes bf16 and fp16";
  if (heads.query.dim() != 5) return "";
  const int64_t dim = heads.query.size(4), value_dim = heads.value.size(3);
  if (value_dim != dim) return Concat("values of ", value_dim, " on keys of ", dim, "; they must be alike");
  if (dim % kPack != 0 || dim > kLargest)
    return Concat("heads of ", dim, "; flash attention takes multiples of 8 up to ", kLargest);
  return heads.query.numel() == 0 ? "there are no queries" : "";
}

bool AreDocuments(const RowTiles& tiles, int64_t length) {
  for (const std::vector<AttentionTile>& row : tiles) {
    int64_t end = 0;
    for (const AttentionTile& t : row) {
      const bool itself = t.query == t.key && t.queries == t.keys && t.first == 0 && t.window == 0;
      if (!itself || t.query < end) return false;
      end = t.query + t.queries;
    }
    if (end > length) return false;
  }
  return true;
}

PartialAttention FlashPacked(const Heads& heads, double scale, const RowTiles& tiles) {
  const Documents documents(tiles, heads.query.size(2));
  const at::Tensor ends = documents.EndsOn(heads.query.device());
  const auto out = at::_flash_attention_forward(TokensOf(heads.query), TokensOf(heads.key), TokensOf(heads.value), ends,
                                                ends, documents.longest, documents.longest, /*dropout_p=*/0.0,
                                                /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  documents.ClearGaps(std::get<0>(out));
  return {HeadsOf(std::get<0>(out), heads.query), std::get<1>(out)};
}

Heads FlashPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries) {
  const Documents documents(tiles, heads.query.size(2));
  const at::Tensor ends = documents.EndsOn(heads.query.device());
  at::Tensor gradient = TokensOf(queries.output_gradient);
  if (!documents.gaps.empty()) documents.ClearGaps(gradient = gradient.clone());
  const at::Tensor unused = at::empty({2}, ends.options().dtype(at::kUInt64));  // of dropout, which is 0
  const auto [query, key, value] = at::_flash_attention_backward(
      gradient, TokensOf(heads.query), TokensOf(heads.key), TokensOf(heads.value), TokensOf(queries.output),
      queries.log_sum_exp, ends, ends, documents.longest, documents.longest, /*dropout_p=*/0.0,
      /*is_causal=*/true, unused, unused, scale);
  return {HeadsOf(query, heads.query), HeadsOf(key, heads.key), HeadsOf(value, heads.value)};
}

at::Tensor FlashCached(const Heads& heads, double scale, int64_t past) {
  const auto size = heads.query.sizes();  // [rows, kv_heads, length, group, head_dim]
  const auto cached = [&](const at::Tensor& all) { return all.narrow(2, 0, past + size[2]).transpose(1, 2); };
  const at::Tensor query = heads.query.transpose(1, 2).reshape({size[0], size[2], size[1] * size[3], size[4]});
  const auto out = at::_flash_attention_forward(query, cached(heads.key), cached(heads.value), /*cum_seq_q=*/{},
                                                /*cum_seq_k=*/{}, size[2], past + size[2], /*dropout_p=*/0.0,
                                                /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  return std::get<0>(out).view({size[0], size[2], size[1], size[3], size[4]}).transpose(1, 2);
}

}  // namespace trireme
