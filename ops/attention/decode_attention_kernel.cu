// New keys and values into the cache's blocks, and one new token in each row attending to all it has there,
// read where it is by the row's table. A thread block takes the queries of one key head and one part of a
// row's keys: scores of the part, their softmax, the sum of the values; a second kernel joins the parts. Keys
// and values are read once, 16 bytes a thread.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 128, kPack = 8;

template <typename T>
__device__ inline void LoadPack(const T* from, float (&to)[kPack]) {
  if constexpr (sizeof(T) == 2) {
    Load<T>(from, to);
  } else {
    float low[4], high[4];
    Load<T>(from, low);
    Load<T>(from + 4, high);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i] = low[i];
      to[i + 4] = high[i];
    }
  }
}

// A token's keys and values of one head to their slot.
template <typename T>
__global__ void StoreTokens(StoreArgs a) {
  const int64_t token = blockIdx.x, head = blockIdx.y, slot = a.slots[token];
  const int64_t block = slot >> a.block_shift, offset = slot & ((int64_t{1} << a.block_shift) - 1);
  const int64_t place = ((block * a.kv_heads + head) << a.block_shift) + offset;
  const T* key = static_cast<const T*>(a.fresh_key) + head * a.key_strides.head + token * a.key_strides.token;
  for (int64_t i = threadIdx.x; i < a.dim; i += blockDim.x) static_cast<T*>(a.key)[place * a.dim + i] = key[i];
  if (a.value == nullptr) return;
  const T* value = static_cast<const T*>(a.fresh_value) + head * a.value_strides.head + token * a.value_strides.token;
  for (int64_t i = threadIdx.x; i < a.value_dim; i += blockDim.x)
    static_cast<T*>(a.value)[place * a.value_dim + i] = value[i];
}

// The queries and keys of a thread block.
struct Part {
  int queries, keys, begin;
  int64_t first_query;  // of all queries, as the output is laid out
  int64_t query_place;  // element of the first one
  int64_t head_place;   // element of the head in a cache block
  const int32_t* table;

  __device__ explicit Part(const DecodeArgs& a) {
    const int64_t groups = (a.group + kDecodeGroup - 1) / kDecodeGroup;
    const int64_t row = blockIdx.z, head = blockIdx.y / groups;
    const int32_t* line = a.table + row * (1 + a.columns);
    const int in_group = static_cast<int>(blockIdx.y % groups) * kDecodeGroup, count = line[0];
    queries = min(static_cast<int>(a.group) - in_group, kDecodeGroup);
    begin = static_cast<int>(blockIdx.x) * a.part + (a.window > 0 ? max(count - a.window, 0) : 0);
    keys = min(count - begin, a.part);
    first_query = (row * a.kv_heads + head) * a.group + in_group;
    query_place = row * a.query_strides.token + head * a.query_strides.head + in_group * a.dim;
    head_place = (head << a.block_shift) * a.dim;
    table = line + 1;
  }

  // Element of the part's key or value of that number.
  __device__ int64_t Place(const DecodeArgs& a, int key) const {
    const int token = begin + key, offset = token & ((1 << a.block_shift) - 1);
    return table[token >> a.block_shift] * a.block_stride + head_place + offset * a.dim;
  }

  __device__ float* PartialOf(const DecodeArgs& a, int query) const {
    return a.partial + ((first_query + query) * a.splits + blockIdx.x) * (a.dim + 2);
  }
};

using Scores = float[kDecodeGroup][kDecodeKeysPerPart];

template <typename T, int kDim>
__device__ inline void WriteNoKeys(const DecodeArgs& a, const Part& part) {
  if (a.splits == 1) {
    for (int i = threadIdx.x; i < part.queries * kDim; i += kThreads)
      static_cast<T*>(a.output)[part.first_query * kDim + i] = Narrow<T>(0);
  } else if (static_cast<int>(threadIdx.x) < part.queries) {
    float* partial = part.PartialOf(a, threadIdx.x);
    partial[kDim] = -INFINITY;
    partial[kDim + 1] = 0;
  }
}

// kLanes · kPack = dim: so many threads read a key together.
template <typename T, int kLanes>
__device__ inline void ScoreKeys(const DecodeArgs& a, const Part& part, Scores& scores) {
  constexpr int kDim = kLanes * kPack, kReaders = kThreads / kLanes;
  const int reader = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const T* keys = static_cast<const T*>(a.key) + lane * kPack;
  float query[kDecodeGroup][kPack] = {};
#pragma unroll
  for (int q = 0; q < kDecodeGroup; ++q) {
    if (q < part.queries)
      LoadPack<T>(static_cast<const T*>(a.query) + part.query_place + q * kDim + lane * kPack, query[q]);
  }
  const int rounds = (part.keys + kReaders - 1) / kReaders;  // the same for all threads: they shuffle
#pragma unroll 2
  for (int round = 0; round < rounds; ++round) {
    const int key = round * kReaders + reader;
    float k[kPack] = {};
    if (key < part.keys) LoadPack<T>(keys + part.Place(a, key), k);
#pragma unroll
    for (int q = 0; q < kDecodeGroup; ++q) {
      float dot = 0;
#pragma unroll
      for (int i = 0; i < kPack; ++i) dot += query[q][i] * k[i];
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
      if (lane == 0 && key < part.keys) scores[q][key] = dot * a.scale;
    }
  }
}

// A query a warp: scores become exp(score - largest).
__device__ inline void Exponentiate(const Part& part, Scores& scores, float* largest, float* total) {
  const int lane = threadIdx.x % 32;
  for (int q = threadIdx.x / 32; q < part.queries; q += kThreads / 32) {
    float most = -INFINITY, sum = 0;
    for (int key = lane; key < part.keys; key += 32) most = fmaxf(most, scores[q][key]);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    for (int key = lane; key < part.keys; key += 32) {
      const float p = __expf(scores[q][key] - most);
      scores[q][key] = p;
      sum += p;
    }
    sum = WarpSum(sum);
    if (lane == 0) {
      largest[q] = most;
      total[q] = sum;
    }
  }
}

// Each reader sums its keys' values; then those of a warp are added, and warp after warp adds to `sums`, in the same
// order in every run.
template <typename T, int kLanes>
__device__ inline void SumValues(const DecodeArgs& a, const Part& part, const Scores& scores,
                                 float (&sums)[kDecodeGroup][kLanes * kPack]) {
  constexpr int kReaders = kThreads / kLanes;
  const int reader = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const T* values = static_cast<const T*>(a.value) + lane * kPack;
  float sum[kDecodeGroup][kPack] = {};
#pragma unroll 2
  for (int key = reader; key < part.keys; key += kReaders) {
    float v[kPack];
    LoadPack<T>(values + part.Place(a, key), v);
#pragma unroll
    for (int q = 0; q < kDecodeGroup; ++q) {
      const float p = q < part.queries ? scores[q][key] : 0.0f;
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[q][i] += p * v[i];
    }
  }
#pragma unroll
  for (int step = kLanes; step < 32; step *= 2) {
#pragma unroll
    for (int q = 0; q < kDecodeGroup; ++q) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[q][i] += __shfl_xor_sync(0xffffffffu, sum[q][i], step);
    }
  }
  const int warp = threadIdx.x / 32;
  for (int turn = 0; turn < kThreads / 32; ++turn) {
    if (turn == warp && threadIdx.x % 32 < kLanes) {
#pragma unroll
      for (int q = 0; q < kDecodeGroup; ++q) {
        auto& to = *reinterpret_cast<Pack<float, kPack>*>(&sums[q][lane * kPack]);
        Pack<float, kPack> all = to;
#pragma unroll
        for (int i = 0; i < kPack; ++i) all.at[i] = turn == 0 ? sum[q][i] : all.at[i] + sum[q][i];
        to = all;
      }
    }
    __syncthreads();
  }
}

template <typename T, int kLanes>
__global__ void __launch_bounds__(kThreads) Attend(DecodeArgs a) {
  constexpr int kDim = kLanes * kPack;
  __shared__ Scores scores;
  __shared__ alignas(32) float sums[kDecodeGroup][kDim];
  __shared__ float largest[kDecodeGroup], total[kDecodeGroup];
  LetNextStart();
  const Part part(a);
  if (part.keys <= 0) return WriteNoKeys<T, kDim>(a, part);
  ScoreKeys<T, kLanes>(a, part, scores);
  __syncthreads();
  Exponentiate(part, scores, largest, total);
  __syncthreads();
  SumValues<T, kLanes>(a, part, scores, sums);
  for (int i = threadIdx.x; i < part.queries * kDim; i += kThreads) {
    const int q = i / kDim, column = i % kDim;
    if (a.splits == 1) {
      static_cast<T*>(a.output)[part.first_query * kDim + i] = Narrow<T>(sums[q][column] / total[q]);
      continue;
    }
    float* partial = part.PartialOf(a, q);
    partial[column] = sums[q][column];
    if (column == 0) {
      partial[kDim] = largest[q];
      partial[kDim + 1] = total[q];
    }
  }
}

// A query a block: its parts, weighted by their largest score.
template <typename T>
__global__ void Join(DecodeArgs a) {
  LetNextStart();
  const int64_t query = blockIdx.x, stride = a.dim + 2;
  const float* parts = a.partial + query * a.splits * stride;
  float largest = -INFINITY;
  for (int part = 0; part < a.splits; ++part) largest = fmaxf(largest, parts[part * stride + a.dim]);
  float total = 0, sum = 0;
  const int column = threadIdx.x;
  for (int part = 0; part < a.splits; ++part) {
    const float most = parts[part * stride + a.dim];
    if (most == -INFINITY) continue;  // without keys: it has no sum
    const float weight = __expf(most - largest);
    total += weight * parts[part * stride + a.dim + 1];
    sum += weight * parts[part * stride + column];
  }
  static_cast<T*>(a.output)[query * a.dim + column] = Narrow<T>(total > 0 ? sum / total : 0);
}

template <typename T, int kLanes>
int LaunchDecode(const DecodeArgs& a, void* stream) {
  const int64_t group_parts = (a.group + kDecodeGroup - 1) / kDecodeGroup;
  Attend<T, kLanes><<<dim3(static_cast<unsigned>(a.splits), static_cast<unsigned>(a.kv_heads * group_parts),
                           static_cast<unsigned>(a.rows)),
                      kThreads, 0, On(stream)>>>(a);
  if (a.splits > 1) {
    Join<T><<<static_cast<unsigned>(a.rows * a.kv_heads * a.group), static_cast<unsigned>(a.dim), 0, On(stream)>>>(a);
  }
  return Launched();
}

template <typename T>
int ByDim(const DecodeArgs& a, void* stream) {
  if (a.dim == 64) return LaunchDecode<T, 8>(a, stream);
  if (a.dim == 128) return LaunchDecode<T, 16>(a, stream);
  return LaunchDecode<T, 32>(a, stream);
}

}  // namespace

int StoreTokens(const StoreArgs& a, bool bf16, void* stream) {
  const dim3 grid(static_cast<unsigned>(a.tokens), static_cast<unsigned>(a.kv_heads));
  if (a.tokens == 0) return 0;
  if (bf16) {
    StoreTokens<Bf16><<<grid, 64, 0, On(stream)>>>(a);
  } else {
    StoreTokens<float><<<grid, 64, 0, On(stream)>>>(a);
  }
  return Launched();
}

int DecodeAttention(const DecodeArgs& a, bool bf16, void* stream) {
  if (a.rows == 0) return 0;
  return bf16 ? ByDim<Bf16>(a, stream) : ByDim<float>(a, stream);
}

}  // namespace trireme::cuda
