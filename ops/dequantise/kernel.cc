#include "ops/dequantise/kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "ops/dequantise/ascendc.h"
#include "ops/kernel_place.h"

namespace trireme {
namespace {

// One for each kind and device, never freed: some kilobyte.
const at::Tensor& TablesOn(at::Device device, PackedStorage::Kind kind) {
  static std::mutex mutex;
  static auto& tables =
      *new std::map<std::pair<PackedStorage::Kind, std::string>, at::Tensor>();  // outlives the device
  const std::lock_guard lock(mutex);
  at::Tensor& found = tables[{kind, device.str()}];
  if (!found.defined()) {
    const std::vector<float> values = ascendc::DequantiseTables(kind);
    found = at::tensor(at::ArrayRef<float>(values), at::kFloat).to(device);
  }
  return found;
}

}  // namespace

std::string WhyNoDequantiseKernel(const PackedRange& range) {
  std::string why = WhyNoKernel(range.matrix);
  range.ForEachPart([&](const PackedPart& part, int64_t) {
    if (why.empty()) why = ascendc::WhyNotDequantised(part, range.packed.parts().storage);
  });
  return why;
}

void KernelDequantise(const PackedRange& range) {
  const PackedWeight& packed = range.packed;
  const PackedStorage& storage = packed.parts().storage;
  const at::Tensor& tables = TablesOn(range.matrix.device(), storage.kind);
  const ascendc::KernelPlace place = PlaceOf(range.matrix);
  range.ForEachPart([&](const PackedPart& part, int64_t start) {
    auto* to =
        static_cast<uint8_t*>(range.matrix.data_ptr()) + start * static_cast<int64_t>(range.matrix.element_size());
    ascendc::Dequantise(place, ElementOf(range.matrix), part, storage, packed.bytes.const_data_ptr(),
                        tables.const_data_ptr(), to);
  });
}

}  // namespace trireme
