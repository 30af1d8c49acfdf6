// New keys and values into the cache, and one new token in each row attending to all it has there. A block
// takes the queries of one key head and one part of a row's keys: scores of the part, their softmax, the sum
// of the values; a second kernel joins the parts. Keys and values are read once, 16 bytes a thread.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 128, kPack = 8;
constexpr int kRowsPerLaunch = 256;

struct RowCounts {  // travels with the launch
  int count[kRowsPerLaunch];
};
RowCounts CountsOf(const int64_t* counts, int64_t first, int64_t rows) {
  RowCounts some;
  for (int64_t i = 0; i < rows; ++i) some.count[i] = static_cast<int>(counts[first + i]);
  return some;
}

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

template <typename T>
__global__ void Append(AppendArgs a, RowCounts past, RowCounts fresh, int64_t first_row) {
  const int64_t token = blockIdx.x, head = blockIdx.y, row = first_row + blockIdx.z;
  if (token >= fresh.count[blockIdx.z]) return;
  const int64_t place = (row * a.kv_heads + head) * a.capacity + past.count[blockIdx.z] + token;
  const auto from = [&](const void* all, const CacheStrides& s) {
    return static_cast<const T*>(all) + row * s.row + head * s.head + token * s.token;
  };
  const T *key = from(a.fresh_key, a.key_strides), *value = from(a.fresh_value, a.value_strides);
  for (int64_t i = threadIdx.x; i < a.dim; i += blockDim.x)
    static_cast<T*>(a.key)[place * a.dim + i] = key[i];
  for (int64_t i = threadIdx.x; i < a.value_dim; i += blockDim.x)
    static_cast<T*>(a.value)[place * a.value_dim + i] = value[i];
}

// The queries and keys of a block.
struct Part {
  int queries, keys;
  int64_t first_query;  // of all queries, as the output is laid out
  int64_t first_key;    // element of the cache

  __device__ Part(const DecodeArgs& a, const RowCounts& counts, int64_t first_row) {
    const int64_t groups = (a.group + kDecodeGroup - 1) / kDecodeGroup;
    const int64_t head = (first_row + blockIdx.z) * a.kv_heads + blockIdx.y / groups;
    const int in_group = static_cast<int>(blockIdx.y % groups) * kDecodeGroup;
    queries = min(static_cast<int>(a.group) - in_group, kDecodeGroup);
    const int begin = static_cast<int>(blockIdx.x) * a.part;
    keys = min(counts.count[blockIdx.z] - begin, a.part);
    first_query = head * a.group + in_group;
    first_key = (head * a.capacity + begin) * a.dim;
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
  const T* keys = static_cast<const T*>(a.key) + part.first_key + lane * kPack;
  float query[kDecodeGroup][kPack] = {};
#pragma unroll
  for (int q = 0; q < kDecodeGroup; ++q) {
    if (q < part.queries)
      LoadPack<T>(static_cast<const T*>(a.query) + (part.first_query + q) * kDim + lane * kPack, query[q]);
  }
  const int rounds = (part.keys + kReaders - 1) / kReaders;  // the same for all threads: they shuffle
#pragma unroll 2
  for (int round = 0; round < rounds; ++round) {
    const int key = round * kReaders + reader;
    float k[kPack] = {};
    if (key < part.keys) LoadPack<T>(keys + static_cast<int64_t>(key) * kDim, k);
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

// Each reader sums its keys' values; then reader after reader adds to `sums`, in the same order in every run.
template <typename T, int kLanes>
__device__ inline void SumValues(const DecodeArgs& a, const Part& part, const Scores& scores,
                                 float (&sums)[kDecodeGroup][kLanes * kPack]) {
  constexpr int kDim = kLanes * kPack, kReaders = kThreads / kLanes;
  const int reader = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const T* values = static_cast<const T*>(a.value) + part.first_key + lane * kPack;
  float sum[kDecodeGroup][kPack] = {};
#pragma unroll 2
  for (int key = reader; key < part.keys; key += kReaders) {
    float v[kPack];
    LoadPack<T>(values + static_cast<int64_t>(key) * kDim, v);
#pragma unroll
    for (int q = 0; q < kDecodeGroup; ++q) {
      const float p = q < part.queries ? scores[q][key] : 0.0f;
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[q][i] += p * v[i];
    }
  }
  for (int turn = 0; turn < kReaders; ++turn) {
    if (turn == reader) {
#pragma unroll
      for (int q = 0; q < kDecodeGroup; ++q) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          float& to = sums[q][lane * kPack + i];
          to = turn == 0 ? sum[q][i] : to + sum[q][i];
        }
      }
    }
    __syncthreads();
  }
}

template <typename T, int kLanes>
__global__ void __launch_bounds__(kThreads) Attend(DecodeArgs a, RowCounts counts, int64_t first_row) {
  constexpr int kDim = kLanes * kPack;
  __shared__ Scores scores;
  __shared__ float sums[kDecodeGroup][kDim], largest[kDecodeGroup], total[kDecodeGroup];
  const Part part(a, counts, first_row);
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

// Calls work(first row, rows) for as many rows as a launch takes.
template <typename Work>
void ForEachLaunch(int64_t rows, const Work& work) {
  for (int64_t first = 0; first < rows; first += kRowsPerLaunch)
    work(first, rows - first < kRowsPerLaunch ? rows - first : int64_t{kRowsPerLaunch});
}

template <typename T>
int LaunchAppend(const AppendArgs& a, void* stream) {
  ForEachLaunch(a.rows, [&](int64_t first, int64_t rows) {
    Append<T><<<dim3(static_cast<unsigned>(a.length), static_cast<unsigned>(a.kv_heads),
                     static_cast<unsigned>(rows)),
                64, 0, On(stream)>>>(a, CountsOf(a.past, first, rows), CountsOf(a.fresh, first, rows), first);
  });
  return Launched();
}

template <typename T, int kLanes>
int LaunchDecode(const DecodeArgs& a, void* stream) {
  const int64_t group_parts = (a.group + kDecodeGroup - 1) / kDecodeGroup;
  ForEachLaunch(a.rows, [&](int64_t first, int64_t rows) {
    Attend<T, kLanes><<<dim3(static_cast<unsigned>(a.splits), static_cast<unsigned>(a.kv_heads * group_parts),
                             static_cast<unsigned>(rows)),
                        kThreads, 0, On(stream)>>>(a, CountsOf(a.keys, first, rows), first);
  });
  if (a.splits > 1) {
    Join<T><<<static_cast<unsigned>(a.rows * a.kv_heads * a.group), static_cast<unsigned>(a.dim), 0,
              On(stream)>>>(a);
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

int AppendToCache(const AppendArgs& a, bool bf16, void* stream) {
  if (a.rows == 0 || a.length == 0) return 0;
  return bf16 ? LaunchAppend<Bf16>(a, stream) : LaunchAppend<float>(a, stream);
}

int DecodeAttention(const DecodeArgs& a, bool bf16, void* stream) {
  if (a.rows == 0) return 0;
  return bf16 ? ByDim<Bf16>(a, stream) : ByDim<float>(a, stream);
}

}  // namespace trireme::cuda
