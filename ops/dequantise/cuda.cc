#include "ops/dequantise/cuda.h"

#include <ATen/ops/tensor.h>

#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "core/base/rounding.h"
#include "core/packing/codes.h"
#include "core/packing/scales.h"
#include "ops/choose.h"
#include "ops/cuda/launch.h"

namespace trireme {
namespace {

// What the kernel looks values up in: those of the codes, then those of the scales' codes. One copy a device and kind.
const float* CudaTables(const at::Device& device, PackedStorage::Kind kind) {
  if (kind == PackedStorage::Kind::kInt8) return nullptr;  // a code is a number
  static std::mutex mutex;
  static auto& tables = *new std::map<std::pair<PackedStorage::Kind, int>, at::Tensor>();  // outlives the device
  const std::lock_guard lock(mutex);
  at::Tensor& table = tables[{kind, device.index()}];
  if (!table.defined()) {
    const CodeTable& values = ValuesOfCodes(kind);
    std::vector<float> all(values.begin(), values.end());
    const std::vector<float> map = DynamicMap(/*negative=*/true);
    all.insert(all.end(), map.begin(), map.end());
    table = at::tensor(all).to(device);
  }
  return table.const_data_ptr<float>();
}

cuda::DequantiseArgs ArgsOfDequantiseCuda(const PackedPart& part, const PackedStorage& storage, const uint8_t* bytes) {
  return {.codes = bytes + part.codes,
          .scales = bytes + part.scales,
          .nested = storage.nested ? reinterpret_cast<const float*>(bytes + part.nested) : nullptr,
          .nested_count = DivideUp(DivideUp(part.matrix_elements(), part.block), kScalesPerBlock),
          .runs = part.runs(),
          .run_size = part.run_size(),
          .run_blocks = part.run_blocks,
          .run_code_bytes = part.run_code_bytes(),
          .start = part.RunStart(0),
          .matrix_columns = part.matrix_columns,
          .stride = part.local_stride,
          .block_shift = std::countr_zero(static_cast<uint64_t>(part.block)),
          .int8_fraction = kInt8Fraction};
}

}  // namespace

std::string WhyNoCudaDequantise(const PackedRange& range) {
  std::string why = WhyNoCudaKernel(range.matrix);
  if (range.packed.parts().storage.kind == PackedStorage::Kind::kFp8) why = Either(why, "ATen's cast decodes fp8");
  range.ForEachPart([&](const PackedPart& part, int64_t) {
    if (part.has_whole_rows() && part.local_stride != part.columns) why = "whole rows of a matrix lie apart";
  });
  return why;
}

void CudaDequantise(const PackedRange& range) {
  const PackedStorage& storage = range.packed.parts().storage;
  const auto* bytes = range.packed.bytes.const_data_ptr<uint8_t>();
  const float* tables = CudaTables(range.matrix.device(), storage.kind);
  auto* matrix = static_cast<uint8_t*>(range.matrix.data_ptr());
  range.ForEachPart([&](const PackedPart& part, int64_t start) {
    cuda::DequantiseArgs args = ArgsOfDequantiseCuda(part, storage, bytes);
    args.tables = tables;
    args.matrix = matrix + start * static_cast<int64_t>(range.matrix.element_size());
    CheckLaunch(CudaKernels().dequantise(args, IsBf16(range.matrix), CudaStream()), "dequantise");
  });
}

}  // namespace trireme
