#include "ops/dequantise/dequantise.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "core/packing/decode.h"
#include "ops/dequantise/cuda.h"
#include "ops/dequantise/kernel.h"
#include "ops/dequantise/reference.h"
#include "ops/operator.h"

namespace trireme {
namespace {

// Rows of all parts, by the loops of core/packing.
void LoopsOfDequantise(const PackedRange& range) {
  constexpr int64_t kGrain = 1 << 15;  // elements that a thread decodes at least
  const PackedStorage& storage = range.packed.parts().storage;
  const auto* from = range.packed.bytes.const_data_ptr<uint8_t>();
  range.ForEachPart([&](const PackedPart& part, int64_t start) {
    at::parallel_for(0, part.rows, std::max<int64_t>(kGrain / part.columns, 1), [&](int64_t first, int64_t last) {
      if (range.matrix.scalar_type() == at::kFloat) {
        DecodeRows(part, storage, from, first, last, range.matrix.data_ptr<float>() + start);
      } else {
        DecodeRows(part, storage, from, first, last, static_cast<uint16_t*>(range.matrix.data_ptr()) + start);
      }
    });
  });
}

std::string WhyNotLoopsOfDequantise(const PackedRange& range) { return WhyNoLoops(range.matrix); }

const ImplementationList<PackedRange, decltype(&ReferenceDequantise)> kDequantise{
    "dequantise",
    {{"cpu", WhyNotLoopsOfDequantise, LoopsOfDequantise},
     {"cuda", WhyNoCudaDequantise, CudaDequantise},
     {"ascendc", WhyNoDequantiseKernel, KernelDequantise},
     {"aten", nullptr, ReferenceDequantise}}};

// Memory for decoded weights on the host. Fresh pages for each product would cost as much as decoding: while nobody
// holds what was decoded last, its memory is used again. A device's allocator does the same.
at::Tensor HostRoom(const Shape& shape, at::ScalarType type) {
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

// A matrix, or a stack of them, that begins with this element of the rank's tensor.
at::Tensor DecodedPart(const PackedWeight& packed, int64_t begin, const Shape& shape) {
  const at::NoGradGuard no_graph;
  const at::Tensor room = packed.bytes.is_cpu() ? HostRoom(shape, packed.type())
                                                : at::empty(shape, packed.bytes.options().dtype(packed.type()));
  const PackedRange range{packed, begin, room};
  kDequantise.Choose(range).forward(range);
  return room;
}

// A matrix in nf4 with nested scales.
std::shared_ptr<PackedWeight> RandomWeight(int64_t rows, int64_t columns, const at::TensorOptions& options) {
  const PackedPart part{.name = "weight",
                        .matrix_rows = rows,
                        .matrix_columns = columns,
                        .rows = rows,
                        .columns = columns,
                        .local_stride = columns};
  auto packed = std::make_shared<PackedWeight>(PlaceParts({}, {part}), Shape{rows, columns},
                                               c10::typeMetaToScalarType(options.dtype()));
  const PackedParts& parts = packed->parts();
  packed->bytes = at::randint(256, {parts.bytes}, options.dtype(at::kByte));
  const int64_t nested = parts.parts.front().nested;
  packed->bytes.narrow(0, nested, parts.bytes - nested).view(at::kFloat).fill_(1);
  return packed;
}

std::vector<BenchCase> BenchDequantise(const BenchSize& s) {
  if (s.type == at::kHalf) return {};
  const std::shared_ptr<PackedWeight> packed = RandomWeight(s.rows, s.columns, at::TensorOptions().dtype(s.type));
  const auto elements = static_cast<double>(s.rows * s.columns);
  return {{.forward_bytes =
               elements * static_cast<double>(c10::elementSize(s.type)) + static_cast<double>(packed->bytes.numel()),
           .run = [=] {
             DecodedPart(*packed, 0, packed->shape());
             return BenchCase::Tensors{};
           }}};
}

std::vector<CaseReport> ReportDequantise(const at::Tensor& like) {
  if (like.scalar_type() == at::kHalf) return {};
  const PackedWeight none(PlaceParts({}, {}), {0, 0}, like.scalar_type());
  return {kDequantise.Report("[any, any]", {none, 0, like})};
}

}  // namespace

Operator operators::dequantise() {
  return {.name = kDequantise.op(),
          .summary = "the matrix of a weight that is packed in 4 or 8 bits",
          .implementations = kDequantise.names(),
          .report = ReportDequantise,
          .bench = BenchDequantise};
}

at::Tensor DecodedMatrix(const PackedWeight& packed) { return DecodedPart(packed, 0, packed.shape()); }

at::Tensor MatrixOf(const Weight& weight) { return weight.packed ? DecodedMatrix(*weight.packed) : weight.value; }

at::Tensor MatrixOf(const Weight& weight, int64_t index) {
  if (!weight.packed) return weight.value[index];
  const Shape& stack = weight.packed->shape();
  const Shape one(stack.begin() + 1, stack.end());
  return DecodedPart(*weight.packed, index * Elements(one), one);
}

}  // namespace trireme
