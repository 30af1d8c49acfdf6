#include "core/tensor/packed_weight.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/packing/decode.h"

namespace trireme {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements that a thread decodes at least

// Memory for decoded weights on the host. Fresh pages for each product would cost as much as decoding: while nobody holds what
// was decoded last, its memory is used again.
at::Tensor DecodedRoom(const Shape& shape, at::ScalarType type) {
  static std::mutex mutex;
  static at::Tensor last;
  const std::lock_guard lock(mutex);
  const int64_t bytes = Elements(shape) * static_cast<int64_t>(c10::elementSize(type));
  const bool free = last.defined() && last.storage().use_count() == 1;
  if (!free || last.numel() < bytes) {
    at::Tensor fresh = at::empty({bytes}, at::kByte);
    if (!last.defined() || free || fresh.numel() > last.numel()) last = fresh;
    return fresh.view(type).view(shape);
  }
  return last.narrow(0, 0, bytes).view(type).view(shape);
}

}  // namespace

PackedWeight::PackedWeight(PackedParts parts, Shape shape, at::ScalarType type)
    : parts_(std::move(parts)), shape_(std::move(shape)), type_(type) {
  TRIREME_CHECK(type == at::kFloat || type == at::kBFloat16) << "packed weights decode to fp32 or bf16";
}

at::Tensor PackedWeight::Decode() const { return DecodePart(0, Elements(shape_), shape_); }

at::Tensor PackedWeight::Decode(int64_t index) const {
  const Shape one(shape_.begin() + 1, shape_.end());
  return DecodePart(index * Elements(one), (index + 1) * Elements(one), one);
}

// The parts whose elements are in [begin, end) of the rank's tensor, which no part crosses.
at::Tensor PackedWeight::DecodePart(int64_t begin, int64_t end, const Shape& shape) const {
  const at::NoGradGuard no_graph;
  at::Tensor matrix = DecodedRoom(shape, type_);
  const auto* from = bytes.const_data_ptr<uint8_t>();
  for (const PackedPart& part : parts_.parts) {
    if (part.local_offset < begin || part.local_offset >= end) continue;
    at::parallel_for(0, part.rows, std::max<int64_t>(kGrain / part.columns, 1), [&](int64_t first, int64_t last) {
      const int64_t start = part.local_offset - begin;
      if (type_ == at::kFloat) {
        DecodeRows(part, parts_.storage, from, first, last, matrix.data_ptr<float>() + start);
      } else {
        DecodeRows(part, parts_.storage, from, first, last, static_cast<uint16_t*>(matrix.data_ptr()) + start);
      }
    });
  }
  return matrix;
}

}  // namespace trireme
