#include "session/packing.h"

#include "core/base/error.h"
#include "core/config/unused_keys.h"
#include "parallel/graph/tuning.h"

namespace trireme {

void ApplyPacking(LayerGraph& graph, const Config& config) {
  const ModelConfig& model = config.model();
  RefuseUnusedKeys(config, "model.quantise");
  if (model.quantise() == QUANTISE_NONE) return;
  const TargetNames except{"model.quantise_except", {model.quantise_except().begin(), model.quantise_except().end()}};
  if (model.quantise() == QUANTISE_INT8) return PackBase(graph, kInt8Storage, except);
  if (!IsPackedBlock(model.quantise_block())) {
    throw InputError("model.quantise_block = ", model.quantise_block(), "; wanted 32, 64, 128, … or 4096");
  }
  const PackedStorage storage{
      .kind = model.quantise() == QUANTISE_NF4 ? PackedStorage::Kind::kNf4 : PackedStorage::Kind::kFp4,
      .block = model.quantise_block(),
      .nested = model.quantise_nested()};
  PackBase(graph, storage, except);
}

}  // namespace trireme
