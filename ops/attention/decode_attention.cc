#include "ops/attention/decode_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "core/base/error.h"
#include "ops/choose.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"

namespace trireme {
namespace {

cuda::CacheStrides StridesOf(const at::Tensor& heads) {
  return {.row = heads.stride(0), .head = heads.stride(1), .token = heads.stride(2)};
}

// Keys of one block, so that there are about four blocks for each of a large GPU's processors.
int64_t PartOf(int64_t keys, int64_t blocks) {
  constexpr int64_t kWanted = 528, kLeast = 32, kMost = cuda::kDecodeKeysPerPart;
  const int64_t even = keys * blocks / kWanted;
  return std::clamp((even + kLeast - 1) / kLeast * kLeast, kLeast, kMost);
}

}  // namespace

std::string WhyNoAppendKernel(const Heads& fresh, const KeyValues& cache) {
  if (std::string why = Either(WhyNoCudaKernel(cache.key), WhyNoCudaKernel(cache.value)); !why.empty())
    return why;
  const bool dense = fresh.key.stride(3) == 1 && fresh.value.stride(3) == 1;
  const bool alike =
      fresh.key.scalar_type() == cache.key.scalar_type() && cache.key.size(2) == cache.value.size(2);
  return dense && alike ? "" : "keys and values are strided, or of another type than the cache";
}

void AppendByKernel(const Heads& fresh, const CachedRows& rows, const KeyValues& cache) {
  CheckLaunch(CudaKernels().append_to_cache({.fresh_key = fresh.key.data_ptr(),
                                             .fresh_value = fresh.value.data_ptr(),
                                             .key_strides = StridesOf(fresh.key),
                                             .value_strides = StridesOf(fresh.value),
                                             .key = cache.key.data_ptr(),
                                             .value = cache.value.data_ptr(),
                                             .past = rows.past.data(),
                                             .fresh = rows.fresh.data(),
                                             .rows = fresh.key.size(0),
                                             .kv_heads = fresh.key.size(1),
                                             .length = fresh.key.size(2),
                                             .dim = fresh.key.size(3),
                                             .value_dim = fresh.value.size(3),
                                             .capacity = cache.key.size(2)},
                                            IsBf16(cache.key), CudaStream()),
              "cached_attention");
}

std::string WhyNotDecode(const Heads& heads) {
  if (std::string why = WhyNoCudaKernel(heads.query); !why.empty()) return why;
  if (heads.query.dim() != 5) return "";
  const int64_t dim = heads.query.size(4);
  if (heads.value.size(3) != dim) return "values differ in size from keys";
  if (dim != 64 && dim != 128 && dim != 256)
    return Concat("heads of ", dim, "; the kernel takes 64, 128 and 256");
  return heads.query.size(2) == 1 ? "" : "several new tokens in a row";
}

at::Tensor DecodeAttention(const Heads& heads, double scale, const CachedRows& rows) {
  const auto size = heads.query.sizes();  // [rows, kv_heads, 1, group, head_dim]
  std::vector<int64_t> keys(rows.past.size());
  for (size_t row = 0; row < keys.size(); ++row) keys[row] = rows.fresh[row] == 0 ? 0 : rows.past[row] + 1;
  const int64_t group_parts = (size[3] + cuda::kDecodeGroup - 1) / cuda::kDecodeGroup;
  const int64_t longest = std::max<int64_t>(rows.longest(), 1);
  const int64_t part = PartOf(longest, size[0] * size[1] * group_parts), splits = (longest + part - 1) / part;
  const at::Tensor output = at::empty_like(heads.query);
  at::Tensor partial;
  if (splits > 1) {
    partial = at::empty({size[0] * size[1] * size[3], splits, size[4] + 2},
                        output.options().dtype(at::kFloat));
  }
  CheckLaunch(CudaKernels().decode_attention({.query = heads.query.data_ptr(),
                                              .key = heads.key.data_ptr(),
                                              .value = heads.value.data_ptr(),
                                              .output = output.data_ptr(),
                                              .partial = splits == 1 ? nullptr : Data<float>(partial),
                                              .keys = keys.data(),
                                              .rows = size[0],
                                              .kv_heads = size[1],
                                              .group = size[3],
                                              .dim = size[4],
                                              .capacity = heads.key.size(2),
                                              .splits = static_cast<int>(splits),
                                              .part = static_cast<int>(part),
                                              .scale = static_cast<float>(scale)},
                                             IsBf16(heads.query), CudaStream()),
              "cached_attention");
  return output;
}

}  // namespace trireme
