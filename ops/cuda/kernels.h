// CUDA kernels of our own, for what ATen's would move too many bytes: as plain pointers, without torch. They
// are compiled ahead by nvcc into a library of their own, which is opened when the first tensor on a GPU asks
// for one, so that the program itself starts everywhere. A launch returns CUDA's error code; nothing waits.
#pragma once

#include <cstdint>

#include "ops/cpu/adamw_factors.h"

namespace trireme::cuda {

// Elements of 16 bytes are read at once where a row allows it; a thread keeps up to four such packs of a row.
inline constexpr int kPacksPerThread = 4, kThreadsPerRow = 512;

struct RmsNormArgs {
  const void* x;       // [rows, columns]
  const void* branch;  // the same, added to x before; nullptr: none
  const void* weight;  // [columns]
  void* sum;           // x + branch, where there is a branch
  void* y;
  float* scale;  // [rows]
  int64_t rows, columns;
  float eps;
};

struct RmsNormBackwardArgs {
  const void* x;  // what was normalised
  const void* weight;
  const float* scale;
  const void* y_gradient;
  const void* carried;  // added to the result; nullptr: none
  void* x_gradient;
  float* weight_sums;  // [blocks, columns]
  int64_t rows, columns;
  int blocks;
};

struct HeadStrides {  // in elements; those of a head lie together
  int64_t row, kv_head, position, group;
};

struct HeadsArgs {
  const void* qkv;         // [tokens, (heads + 2 kv_heads) · dim]
  const void* query_norm;  // [dim]; nullptr: none
  const void* key_norm;
  const float* cosine;  // [tokens, dim / 2]
  const float* sine;
  void *query, *key, *value;  // of the backward pass: their gradients
  HeadStrides query_strides, key_strides, value_strides;
  float* scales;  // [tokens, heads + kv_heads], of the norms; nullptr: there are none
  int64_t tokens, length, heads, kv_heads, dim;
  float eps;
  void* qkv_gradient;  // of the backward pass
  float* norm_sums;    // [blocks, query | key, dim], of the backward pass with norms
  int blocks;
};

struct LogitArgs {
  void* logits;  // [rows, stride]
  const int64_t* labels;
  int64_t rows, columns, stride, first_token;
};

struct AdamWArgs {
  void *master, *exp_avg, *exp_avg_sq;
  const float* gradient;
  void* parameter;  // nullptr: the master is the parameter
  int64_t size;
  bool master_bf16, moments_bf16, parameter_bf16;
  bool master_split;  // the master is int16, the low halves, and the parameter bf16, the high ones
  AdamWFactors factors;
};

struct DropoutArgs {
  const void* x;
  const void* residual;  // nullptr: zeros
  void* y;
  const uint32_t* keys;  // [rows, 2]
  int64_t rows, columns;
  uint32_t first_column;
  float rate;
};

// Rows of tokens at their positions among the experts' rows: [tokens, k], -1: none.
struct PermuteArgs {
  const void* from;
  void* to;
  const int64_t* positions;
  int64_t tokens, k, columns;
  int64_t copies, copy_rows;  // of a sum: each position occurs so often, so many rows apart
};

struct PositionArgs {
  const int64_t* chosen;  // [size]; -1: none
  int64_t* positions;     // [size]
  int64_t* counts;        // [experts]
  int32_t* chunk_counts;  // [experts, chunks]: memory to work in
  int64_t size;
  int experts, chunks;
};
inline constexpr int kPositionChunk = 512;  // choices that one warp counts
inline constexpr int kMostExperts = 1024;

struct RouterArgs {
  const float* logits;           // [tokens, experts]
  const float* bias;             // [experts]; nullptr: none
  float* scores;                 // [tokens, experts]
  int32_t* index;                // [tokens, top]
  float* weights;                // [tokens, top]; of the backward pass: their gradient
  const float* scores_gradient;  // of the backward pass; nullptr: none
  float* logits_gradient;        // of the backward pass
  int64_t tokens;
  int experts, top;
  bool sigmoid, normalise;
  float scale, eps;
};
inline constexpr int kMostRouted = 512, kMostTop = 32;

struct HeadOfToken {  // strides in elements; those of a head lie together
  int64_t head, token;
};

// New keys and values to their places in the cache's blocks.
struct StoreArgs {
  const void *fresh_key, *fresh_value;  // [kv_heads, tokens, dim]
  HeadOfToken key_strides, value_strides;
  void *key, *value;     // [blocks, kv_heads, 1 << block_shift, dim]; no value: there are none
  const int64_t* slots;  // [tokens] (block << block_shift) + offset in it
  int64_t tokens, kv_heads, dim, value_dim;
  int block_shift;
};

// One new token in each row over its cached keys and values.
struct DecodeArgs {
  const void* query;  // [rows, kv_heads, group, dim] by these strides
  HeadOfToken query_strides;
  const void *key, *value;  // [blocks, kv_heads, 1 << block_shift, dim]
  void* output;             // [rows, kv_heads, group, dim]
  float* partial;           // [rows, kv_heads, group, splits, dim + 2]; not with one split
  const int32_t* table;     // [rows, 1 + columns] keys of each row, none: its output is zero; then its blocks
  int64_t rows, kv_heads, group, dim;
  int64_t columns, block_stride;  // in elements, from one block to the next
  int block_shift;
  int window;  // keys that a token attends to at most; 0: any number
  int splits;  // parts of a row's keys
  int part;    // keys of one
  float scale;
};
inline constexpr int kDecodeGroup = 8;          // queries of a block
inline constexpr int kDecodeKeysPerPart = 512;  // at most

// [parts, size], each part's elements together.
struct AccumulateArgs {
  float* sum;
  const void* addend;
  int64_t parts, size, sum_stride, addend_stride;
  bool add;  // otherwise the sum is overwritten
};

// sum[e] (+)= output_gradientᵀ x over the rows of expert e, which end at ends[e].
struct GroupedGradientArgs {
  const void* output_gradient;                 // [rows, out] bf16, out and in multiples of 8
  const void* x;                               // [rows, in] bf16
  float* sum;                                  // [experts, out, in], experts a multiple of 4 elements apart
  const int64_t* ends;                         // [experts]; rows after the last end belong to none
  int64_t rows, out, in, experts, sum_stride;  // at most kMostExperts; all matrices start at 16 bytes
  bool add;                                    // otherwise the sum is overwritten, also of experts without rows
};

// Runs of consecutive weights of a file's matrix (core/packing): codes of 4 bits, two to a byte, the first in the upper
// half, or int8, of which a row of the file's matrix has a scale.
struct DequantiseArgs {
  const uint8_t* codes;
  const void* scales;   // of the blocks that each run touches: fp32, or codes of 8 bits
  const float* nested;  // scales of 256 of those, and after them their offset; nullptr: scales are fp32
  int64_t nested_count;
  const float* tables;  // 16 values of codes, 256 of scales' codes; nullptr: int8
  void* matrix;
  int64_t runs, run_size, run_blocks, run_code_bytes;
  int64_t start, matrix_columns;  // of the first run's first weight in the file's matrix, and from run to run
  int64_t stride;                 // from run to run in `matrix`
  int block_shift;                // 4 bits: weights that share a scale, as a power of 2
  float int8_fraction;            // int8: what a code of 1 is of the scale
};
inline constexpr int kScaleShift = 8;

// Rows of bf16 to e4m3: [count, columns], a multiple of 16.
struct CastRowsArgs {
  const void* rows;
  const void* factors;  // [columns] bf16, the row is multiplied by them first; nullptr: none
  float* largest;       // [count] magnitudes: of largest_of_rows the result; cast_rows finds them itself without
  uint8_t* codes;
  float* scales;  // [count] what codes are to be multiplied by
  int64_t count, columns;
};

// y = x Wᵀ of at most kFewRows rows in e4m3, in and out multiples of 16.
struct FewRowsArgs {
  const void* rows;            // [1, in] bf16, to be cast here; not used with codes
  const uint8_t* codes;        // [count, in]; nullptr: there is one row
  const float* scales;         // [count], of codes
  const uint8_t* matrix;       // [out, in]
  const float* matrix_scales;  // [out]
  const void* bias;            // [out] bf16; nullptr: none
  void* y;                     // [count, out] bf16
  int64_t count, in, out;
  bool early;  // the matrix was there before the kernel that is launched before: in a graph it may be read already
};
inline constexpr int kFewRows = 16, kMostCastInside = 32768;  // columns of a row that is cast by the product

// The library's one table. `bf16`: the elements; otherwise fp32.
struct Kernels {
  int (*rms_norm)(const RmsNormArgs&, bool bf16, void* stream);
  int (*rms_norm_backward)(const RmsNormBackwardArgs&, bool bf16, void* stream);
  int (*swiglu)(const void* gate_up, void* y, int64_t rows, int64_t ffn, bool bf16, void* stream);
  int (*swiglu_backward)(const void* gate_up, const void* gradient, void* result, int64_t rows, int64_t ffn, bool bf16,
                         void* stream);
  int (*weighted_swiglu)(const void* gate_up, const float* weights, void* y, int64_t rows, int64_t ffn, bool bf16,
                         void* stream);
  int (*weighted_swiglu_backward)(const void* gate_up, const float* weights, const void* gradient, void* result,
                                  float* weights_gradient, int64_t rows, int64_t ffn, bool bf16, void* stream);
  int (*spread_rows)(const PermuteArgs&, bool bf16, void* stream);
  int (*sum_rows)(const PermuteArgs&, bool bf16, void* stream);
  int (*expert_positions)(const PositionArgs&, void* stream);
  int (*router)(const RouterArgs&, void* stream);
  int (*router_backward)(const RouterArgs&, void* stream);
  int (*store_tokens)(const StoreArgs&, bool bf16, void* stream);
  int (*decode_attention)(const DecodeArgs&, bool bf16, void* stream);
  int (*split_heads)(const HeadsArgs&, bool bf16, void* stream);
  int (*split_heads_backward)(const HeadsArgs&, bool bf16, void* stream);
  int (*logit_statistics)(const LogitArgs&, float* largest, float* sum, float* picked, bool bf16, void* stream);
  int (*logit_gradient)(const LogitArgs&, const float* log_sum_exp, float scale, bool bf16, void* stream);
  int (*adamw)(const AdamWArgs&, void* stream);
  int (*sum_of_squares)(const float* values, int64_t size, double* sums, int blocks, void* stream);
  int (*dropout_add)(const DropoutArgs&, bool bf16, void* stream);
  int (*accumulate)(const AccumulateArgs&, bool bf16, void* stream);
  int (*grouped_gradient)(const GroupedGradientArgs&, void* stream);  // Hopper (compute capability 9.0) only
  int (*dequantise)(const DequantiseArgs&, bool bf16, void* stream);
  int (*largest_of_rows)(const CastRowsArgs&, void* stream);
  int (*cast_rows)(const CastRowsArgs&, void* stream);
  int (*turn_bytes)(const uint8_t* from, uint8_t* to, int64_t rows, int64_t columns, void* stream);
  int (*cast_turned)(const void* from, const float* scales, uint8_t* to, int64_t rows, int64_t columns, void* stream);
  int (*few_rows)(const FewRowsArgs&, void* stream);  // compute capability 8.9 and later
};

using KernelsFunction = const Kernels*();
inline constexpr const char* kKernelsFunction = "trireme_cuda_kernels";

// Each file's part of the table.
int RmsNorm(const RmsNormArgs&, bool bf16, void* stream);
int RmsNormBackward(const RmsNormBackwardArgs&, bool bf16, void* stream);
int SwiGlu(const void* gate_up, void* y, int64_t rows, int64_t ffn, bool bf16, void* stream);
int SwiGluBackward(const void* gate_up, const void* gradient, void* result, int64_t rows, int64_t ffn, bool bf16,
                   void* stream);
int WeightedSwiGlu(const void* gate_up, const float* weights, void* y, int64_t rows, int64_t ffn, bool bf16,
                   void* stream);
int WeightedSwiGluBackward(const void* gate_up, const float* weights, const void* gradient, void* result,
                           float* weights_gradient, int64_t rows, int64_t ffn, bool bf16, void* stream);
int SpreadRows(const PermuteArgs&, bool bf16, void* stream);
int SumRows(const PermuteArgs&, bool bf16, void* stream);
int ExpertPositions(const PositionArgs&, void* stream);
int Router(const RouterArgs&, void* stream);
int RouterBackward(const RouterArgs&, void* stream);
int StoreTokens(const StoreArgs&, bool bf16, void* stream);
int DecodeAttention(const DecodeArgs&, bool bf16, void* stream);
int SplitHeads(const HeadsArgs&, bool bf16, void* stream);
int SplitHeadsBackward(const HeadsArgs&, bool bf16, void* stream);
int LogitStatistics(const LogitArgs&, float* largest, float* sum, float* picked, bool bf16, void* stream);
int LogitGradient(const LogitArgs&, const float* log_sum_exp, float scale, bool bf16, void* stream);
int AdamW(const AdamWArgs&, void* stream);
int SumOfSquares(const float* values, int64_t size, double* sums, int blocks, void* stream);
int DropoutAdd(const DropoutArgs&, bool bf16, void* stream);
int Accumulate(const AccumulateArgs&, bool bf16, void* stream);
int GroupedGradient(const GroupedGradientArgs&, void* stream);
int Dequantise(const DequantiseArgs&, bool bf16, void* stream);
int LargestOfRows(const CastRowsArgs&, void* stream);
int CastRows(const CastRowsArgs&, void* stream);
int TurnBytes(const uint8_t* from, uint8_t* to, int64_t rows, int64_t columns, void* stream);
int CastTurned(const void* from, const float* scales, uint8_t* to, int64_t rows, int64_t columns, void* stream);
int FewRows(const FewRowsArgs&, void* stream);

}  // namespace trireme::cuda
