#include "ops/attention/npu_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "ops/attention/cached_tiles.h"
#include "ops/attention/npu.h"
#include "ops/attention/sinks.h"
#include "ops/choose.h"

namespace trireme {
namespace {

using npu::TokenHeads;

// [rows, kv_heads, length(, group), dim] to [rows · length, heads, dim]: a view where the memory goes token
// by token already.
at::Tensor ToTokens(const at::Tensor& heads) {
  const int64_t count = heads.dim() == 5 ? heads.size(1) * heads.size(3) : heads.size(1);
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), count, heads.size(-1)});
}
TokenHeads ToTokens(const Heads& heads) { return {ToTokens(heads.query), ToTokens(heads.key), ToTokens(heads.value)}; }

// The inverse, as a view; `like` gives the shape.
at::Tensor FromTokens(const at::Tensor& tokens, const at::Tensor& like) {
  std::vector<int64_t> shape = like.sizes().vec();
  std::swap(shape[1], shape[2]);
  shape.back() = tokens.size(-1);
  return tokens.view(shape).transpose(1, 2);
}

RowLengths LengthsOf(const Heads& heads) { return {.queries = heads.query.size(2), .keys = heads.key.size(2)}; }

bool Covers(const std::vector<TokenRun>& runs, const at::Tensor& tokens) {
  return runs.size() == 1 && runs[0].size == tokens.size(0);
}

// The tokens of the runs, side by side.
at::Tensor TakeRuns(const at::Tensor& tokens, const std::vector<TokenRun>& runs) {
  if (Covers(runs, tokens)) return tokens;
  if (runs.size() == 1) return tokens.narrow(0, runs[0].begin, runs[0].size);
  std::vector<at::Tensor> parts;
  parts.reserve(runs.size());
  for (const TokenRun& run : runs) parts.push_back(tokens.narrow(0, run.begin, run.size));
  return at::cat(parts);
}

// What one call computes, put where its tokens are among all of `like`. The first call that covers all of
// them needs no copy; tokens of no call are zero.
void PutRuns(at::Tensor& all, const at::Tensor& part, const std::vector<TokenRun>& runs, const at::Tensor& like) {
  if (!all.defined() && Covers(runs, like)) {
    all = part;
    return;
  }
  if (!all.defined()) all = at::zeros({like.size(0), part.size(1), part.size(2)}, part.options());
  int64_t begin = 0;
  for (const TokenRun& run : runs) {
    all.narrow(0, run.begin, run.size).copy_(part.narrow(0, begin, run.size));
    begin += run.size;
  }
}

TokenHeads TakeCall(const TokenHeads& heads, const VarLenCall& call) {
  const std::vector<TokenRun> queries = call.QueryRuns(), keys = call.KeyRuns();
  return {TakeRuns(heads.query, queries), TakeRuns(heads.key, keys), TakeRuns(heads.value, keys)};
}

// All calls, each of whose queries is in no other one.
npu::VarLenResult AttendCalls(const TokenHeads& heads, const std::vector<VarLenCall>& calls, double scale) {
  at::Tensor output;
  std::vector<at::Tensor> log_sum_exps;
  for (const VarLenCall& call : calls) {
    const npu::VarLenResult result = npu::VarLenAttention(TakeCall(heads, call), call, scale);
    PutRuns(output, result.output, call.QueryRuns(), heads.query);
    log_sum_exps.push_back(result.log_sum_exp);
  }
  if (calls.size() == 1) return {output, log_sum_exps[0]};
  if (!calls.empty()) return {output, at::cat(log_sum_exps)};
  const auto options = heads.query.options();
  return {at::zeros({heads.query.size(0), heads.query.size(1), heads.value.size(2)}, options),
          at::zeros({0}, options.dtype(at::kFloat))};
}

TokenHeads AttendCallsBackward(const TokenHeads& heads, const std::vector<VarLenCall>& calls, double scale,
                               const npu::VarLenResult& result, const at::Tensor& output_gradient) {
  TokenHeads sums;
  int64_t begin = 0;
  for (const VarLenCall& call : calls) {
    const std::vector<TokenRun> queries = call.QueryRuns(), keys = call.KeyRuns();
    const int64_t size = call.QueryEnds().back() * heads.query.size(1);
    const TokenHeads part =
        npu::VarLenAttentionBackward(TakeCall(heads, call), call, scale,
                                     {TakeRuns(result.output, queries), result.log_sum_exp.narrow(0, begin, size)},
                                     TakeRuns(output_gradient, queries));
    begin += size;
    PutRuns(sums.query, part.query, queries, heads.query);
    PutRuns(sums.key, part.key, keys, heads.key);
    PutRuns(sums.value, part.value, keys, heads.value);
  }
  if (calls.empty()) return {at::zeros_like(heads.query), at::zeros_like(heads.key), at::zeros_like(heads.value)};
  return sums;
}

Heads FromTokens(const TokenHeads& tokens, const Heads& like) {
  return {FromTokens(tokens.query, like.query), FromTokens(tokens.key, like.key), FromTokens(tokens.value, like.value)};
}

// Sequences of a call, one after another among all tokens and equally long.
struct EqualSequences {
  int64_t begin, count, queries;

  int64_t tokens() const { return count * queries; }
};

std::vector<EqualSequences> EqualSequencesOf(const VarLenCall& call) {
  std::vector<EqualSequences> runs;
  for (const AttentionTile& tile : call.sequences) {
    if (!runs.empty() && runs.back().queries == tile.queries &&
        runs.back().begin + runs.back().tokens() == tile.query) {
      ++runs.back().count;
    } else {
      runs.push_back({.begin = tile.query, .count = 1, .queries = tile.queries});
    }
  }
  return runs;
}

// Log-sum-exps from the operator's order to [tokens, heads]; tokens of no call have attended to no key.
at::Tensor SumsByToken(const at::Tensor& by_call, const std::vector<VarLenCall>& calls, int64_t tokens, int64_t heads) {
  at::Tensor sums = at::full({tokens, heads}, -std::numeric_limits<double>::infinity(), by_call.options());
  int64_t begin = 0;
  for (const VarLenCall& call : calls) {
    for (const EqualSequences& run : EqualSequencesOf(call)) {
      const at::Tensor own = by_call.narrow(0, begin, run.tokens() * heads).view({run.count, heads, run.queries});
      sums.narrow(0, run.begin, run.tokens()).view({run.count, run.queries, heads}).copy_(own.transpose(1, 2));
      begin += run.tokens() * heads;
    }
  }
  return sums;
}
// The inverse.
at::Tensor SumsByCall(const at::Tensor& by_token, const std::vector<VarLenCall>& calls) {
  std::vector<at::Tensor> parts;
  for (const VarLenCall& call : calls) {
    for (const EqualSequences& run : EqualSequencesOf(call)) {
      const at::Tensor own = by_token.narrow(0, run.begin, run.tokens());
      parts.push_back(own.unflatten(0, {run.count, run.queries}).transpose(1, 2).flatten());
    }
  }
  return parts.empty() ? by_token.new_zeros({0}) : at::cat(parts);
}

RowTiles WholeRows(const Heads& heads) {
  const int64_t length = heads.query.size(2);
  const std::vector<AttentionTile> row = {{.queries = length, .keys = length}};
  return RowTiles(static_cast<size_t>(heads.query.size(0)), row);
}

double PlainScale(const Heads& heads) { return 1 / std::sqrt(static_cast<double>(heads.query.size(4))); }

// Where a sequence of a call is: its row, and its tokens there.
struct SequencePlace {
  int64_t row, query, key;

  SequencePlace(const AttentionTile& tile, const RowLengths& lengths)
      : row(tile.query / lengths.queries),
        query(tile.query - row * lengths.queries),
        key(tile.key - row * lengths.keys) {}
};

// Merges the result of each call into the running one.
void MergeCalls(const Heads& heads, double scale, const std::vector<VarLenCall>& calls, PartialAttention& partial) {
  const TokenHeads tokens = ToTokens(heads);
  const RowLengths lengths = LengthsOf(heads);
  const int64_t kv_heads = heads.query.size(1), group = heads.query.size(3), all_heads = kv_heads * group;
  for (const VarLenCall& call : calls) {
    const npu::VarLenResult result = npu::VarLenAttention(TakeCall(tokens, call), call, scale);
    int64_t begin = 0;
    for (const AttentionTile& tile : call.sequences) {
      const SequencePlace place(tile, lengths);
      const auto own = [&](const at::Tensor& all) { return all[place.row].narrow(1, place.query, tile.queries); };
      const at::Tensor output =
          result.output.narrow(0, begin, tile.queries).unflatten(1, {kv_heads, group}).transpose(0, 1);
      const at::Tensor log_sum_exp = result.log_sum_exp.narrow(0, begin * all_heads, tile.queries * all_heads)
                                         .view({kv_heads, group, tile.queries})
                                         .transpose(1, 2);
      MergePartial({own(partial.output), own(partial.log_sum_exp)}, {output, log_sum_exp});
      begin += tile.queries;
    }
  }
}

void AddCallsBackward(const Heads& heads, double scale, const std::vector<VarLenCall>& calls,
                      const AttendedQueries& queries, Heads& sums) {
  const TokenHeads tokens = ToTokens(heads);
  const at::Tensor output = ToTokens(queries.output), gradient = ToTokens(queries.output_gradient);
  const RowLengths lengths = LengthsOf(heads);
  for (const VarLenCall& call : calls) {
    std::vector<at::Tensor> log_sum_exps;
    for (const AttentionTile& tile : call.sequences) {
      const SequencePlace place(tile, lengths);
      const at::Tensor own = queries.log_sum_exp[place.row].narrow(1, place.query, tile.queries);
      log_sum_exps.push_back(own.transpose(1, 2).flatten());  // head by head
    }
    const std::vector<TokenRun> runs = call.QueryRuns();
    const TokenHeads part = npu::VarLenAttentionBackward(
        TakeCall(tokens, call), call, scale, {TakeRuns(output, runs), at::cat(log_sum_exps)}, TakeRuns(gradient, runs));
    int64_t query = 0, key = 0;
    for (const AttentionTile& tile : call.sequences) {
      const SequencePlace place(tile, lengths);
      const auto add = [&](const at::Tensor& to, const at::Tensor& from, int64_t begin) {
        to.add_(from.narrow(0, begin, to.size(1)).transpose(0, 1).reshape(to.sizes()));
      };
      const at::Tensor to_query = sums.query[place.row].narrow(1, place.query, tile.queries);
      to_query.add_(part.query.narrow(0, query, tile.queries).unflatten(1, {to_query.size(0), -1}).transpose(0, 1));
      add(sums.key[place.row].narrow(1, place.key, tile.keys), part.key, key);
      add(sums.value[place.row].narrow(1, place.key, tile.keys), part.value, key);
      query += tile.queries;
      key += tile.keys;
    }
  }
}

}  // namespace

std::string WhyNotVarLen(const Heads& heads) {
  constexpr int64_t kLargestHead = 768, kMostHeads = 256;
  if (std::string why = WhyNoVendor(heads.query); !why.empty()) return why;
  if (heads.query.dim() != 5) return "";
  const int64_t dim = heads.query.size(4), value_dim = heads.value.size(3);
  const int64_t count = heads.query.size(1) * heads.query.size(3);
  if (dim > kLargestHead) return Concat("heads of ", dim, "; the fused operator takes up to ", kLargestHead);
  if (value_dim > dim)
    return Concat("values of ", value_dim, " on keys of ", dim, "; the fused operator takes no larger ones");
  return count <= kMostHeads ? "" : Concat(count, " heads; the fused operator takes up to ", kMostHeads);
}

std::string WhyNotFusedInfer(const Heads& heads) {
  constexpr int64_t kLargestHead = 512, kPack = 16, kLargestGroup = 64;
  if (std::string why = WhyNotVarLen(heads); !why.empty()) return why;
  const auto type = heads.query.scalar_type();
  if (type != at::kHalf && type != at::kBFloat16) return "generation's operator takes fp16 and bf16";
  if (heads.query.dim() != 5) return "";
  const int64_t dim = heads.query.size(4), group = heads.query.size(3);
  if (heads.value.size(3) != dim)
    return Concat("values of ", heads.value.size(3), "; generation takes those of keys, ", dim);
  if (dim % kPack != 0 || dim > kLargestHead)
    return Concat("heads of ", dim, "; generation's operator takes multiples of 16 up to ", kLargestHead);
  return group <= kLargestGroup ? "" : Concat(group, " queries per key head; generation's operator takes 64");
}

Heads EmptyHeads(const at::Tensor& like, int64_t dim, int64_t value_dim) {
  return {at::empty({0, 1, 1, 1, dim}, like.options()), at::empty({0, 1, 1, dim}, like.options()),
          at::empty({0, 1, 1, value_dim}, like.options())};
}

std::string WhyNotNpuAttention(const at::Tensor& query) {
  if (query.dim() != 5) return WhyNotVarLen({query, query, query});
  return WhyNotVarLen({query, query.select(3, 0), query.select(3, 0)});  // key and value are as large
}

AttentionResult NpuAttention(const Heads& heads) {
  const PartialAttention whole = NpuPacked(heads, PlainScale(heads), WholeRows(heads));
  return {ToTokens(whole.output.to(heads.query.scalar_type())).flatten(1), whole.log_sum_exp};
}

Heads NpuAttentionBackward(const Heads& heads, const AttentionResult& result, const at::Tensor& output_gradient) {
  const auto by_head = [&](const at::Tensor& lines) {
    return FromTokens(lines.unflatten(1, {heads.query.size(1) * heads.query.size(3), -1}), heads.query);
  };
  const at::ScalarType type = heads.query.scalar_type();
  const Heads sums = NpuPackedBackward(heads, PlainScale(heads), WholeRows(heads),
                                       {result.log_sum_exp, by_head(output_gradient), by_head(result.output)});
  return {sums.query.to(type), sums.key.to(type), sums.value.to(type)};
}

PartialAttention NpuPacked(const Heads& heads, double scale, const RowTiles& tiles) {
  return NpuPacked(heads, scale, tiles, VarLenLimits{});
}

PartialAttention NpuPacked(const Heads& heads, double scale, const RowTiles& tiles, const VarLenLimits& limits) {
  const std::vector<VarLenCall> calls = VarLenCalls(tiles, LengthsOf(heads), limits);
  if (NeedMerge(calls)) {
    PartialAttention partial = EmptyPartial(heads.query, heads.value.size(3));
    MergeCalls(heads, scale, calls, partial);
    return partial;
  }
  const npu::VarLenResult result = AttendCalls(ToTokens(heads), calls, scale);
  return {FromTokens(result.output, heads.query), result.log_sum_exp};
}

Heads NpuPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries) {
  return NpuPackedBackward(heads, scale, tiles, queries, VarLenLimits{});
}

Heads NpuPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                        const VarLenLimits& limits) {
  const std::vector<VarLenCall> calls = VarLenCalls(tiles, LengthsOf(heads), limits);
  if (NeedMerge(calls)) {
    Heads sums{at::zeros_like(heads.query, at::kFloat), at::zeros_like(heads.key, at::kFloat),
               at::zeros_like(heads.value, at::kFloat)};
    AddCallsBackward(heads, scale, calls, queries, sums);
    return sums;
  }
  const TokenHeads gradients =
      AttendCallsBackward(ToTokens(heads), calls, scale, {ToTokens(queries.output), queries.log_sum_exp},
                          ToTokens(queries.output_gradient));
  return FromTokens(gradients, heads);
}

PartialAttention NpuPackedWithSums(const Heads& heads, double scale, const RowTiles& tiles) {
  const PartialAttention packed = NpuPacked(heads, scale, tiles);
  const std::vector<VarLenCall> calls = VarLenCalls(tiles, LengthsOf(heads));
  if (NeedMerge(calls)) return packed;
  const auto size = heads.query.sizes();  // [rows, kv_heads, length, group, head_dim]
  const at::Tensor sums = SumsByToken(packed.log_sum_exp, calls, size[0] * size[2], size[1] * size[3]);
  return {packed.output, FromTokens(sums.unsqueeze(-1), heads.query).squeeze(-1)};
}

Heads NpuPackedWithSumsBackward(const Heads& heads, double scale, const RowTiles& tiles,
                                const AttendedQueries& queries) {
  const std::vector<VarLenCall> calls = VarLenCalls(tiles, LengthsOf(heads));
  if (NeedMerge(calls)) return NpuPackedBackward(heads, scale, tiles, queries);
  const at::Tensor by_token = ToTokens(queries.log_sum_exp.unsqueeze(-1)).squeeze(-1);
  return NpuPackedBackward(heads, scale, tiles, {SumsByCall(by_token, calls), queries.output_gradient, queries.output});
}

void NpuTiles(const Heads& heads, double scale, const RowTiles& tiles, PartialAttention& partial) {
  MergeCalls(heads, scale, VarLenCalls(tiles, LengthsOf(heads)), partial);
}

void NpuTilesBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries,
                      Heads& sums) {
  AddCallsBackward(heads, scale, VarLenCalls(tiles, LengthsOf(heads)), queries, sums);
}

at::Tensor NpuCached(const Heads& heads, double scale, const CachedRows& rows) {
  const auto size = heads.query.sizes();  // [rows, kv_heads, length, group, head_dim]
  npu::InferRows counts;
  for (size_t row = 0; row < rows.past.size(); ++row) {  // an idle row computes one token of padding
    counts.queries.push_back(std::max<int64_t>(rows.fresh[row], 1));
    counts.keys.push_back(std::max<int64_t>(rows.past[row] + rows.fresh[row], 1));
  }
  if (heads.query.numel() == 0) return heads.query;
  const at::Tensor query =
      heads.query.transpose(2, 3).reshape({size[0], size[1] * size[3], size[2], size[4]}).contiguous();
  return npu::FusedInferAttention(query, heads.key, heads.value, scale, counts)
      .view({size[0], size[1], size[3], size[2], size[4]})
      .transpose(2, 3);
}

at::Tensor NpuCachedVarLen(const Heads& heads, double scale, const CachedRows& rows) {
  const int64_t keys = rows.longest();
  const Heads seen{heads.query, heads.key.narrow(2, 0, keys), heads.value.narrow(2, 0, keys)};
  if (!rows.sinks.defined()) return NpuPacked(seen, scale, TilesOf(rows)).output;
  const PartialAttention partial = NpuPackedWithSums(seen, scale, TilesOf(rows));
  ApplySinks(partial, rows.sinks);
  return partial.output;
}

}  // namespace trireme
