#include "session/packing.h"

#include "core/base/error.h"
#include "parallel/graph/tuning.h"

namespace trireme {
namespace {

void RefuseLoneKeys(const ModelConfig& model) {
  const ModelConfig& unset = ModelConfig::default_instance();
  const bool any = model.quantise_block() != unset.quantise_block() || model.quantise_nested() != unset.quantise_nested() ||
                   !model.quantise_except().empty();
  if (!any) return;
  throw InputError("model.quantise_block, quantise_nested and quantise_except are for model.quantise nf4 and fp4; set that, ",
                   "or leave them out");
}

// Which operators can decode.
void RefuseDevice(const Config& config) {
  if (config.device() != DEVICE_NPU && config.device() != DEVICE_CUDA) return;
  throw InputError("model.quantise: packed weights are decoded on device cpu only; set device: cpu, or leave it out");
}

}  // namespace

void ApplyPacking(LayerGraph& graph, const Config& config) {
  const ModelConfig& model = config.model();
  if (model.quantise() == QUANTISE_NONE) return RefuseLoneKeys(model);
  if (model.quantise() == QUANTISE_INT8) {
    throw InputError("model.quantise int8 is not supported; use nf4, or fp4");
  }
  RefuseDevice(config);
  if (!IsPackedBlock(model.quantise_block())) {
    throw InputError("model.quantise_block = ", model.quantise_block(), "; wanted 32, 64, 128, … or 4096");
  }
  const PackedStorage storage{
      .kind = model.quantise() == QUANTISE_NF4 ? PackedStorage::Kind::kNf4 : PackedStorage::Kind::kFp4,
      .block = model.quantise_block(),
      .nested = model.quantise_nested()};
  PackBase(graph, storage,
           {"model.quantise_except", {model.quantise_except().begin(), model.quantise_except().end()}});
}

}  // namespace trireme
