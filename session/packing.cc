#include "session/packing.h"

#include "core/base/error.h"
#include "parallel/graph/tuning.h"

namespace trireme {
namespace {

bool HasBlockKeys(const ModelConfig& model) {
  const ModelConfig& unset = ModelConfig::default_instance();
  return model.quantise_block() != unset.quantise_block() || model.quantise_nested() != unset.quantise_nested();
}

void RefuseLoneKeys(const ModelConfig& model) {
  if (!HasBlockKeys(model) && model.quantise_except().empty()) return;
  throw InputError(
      "model.quantise_block, quantise_nested and quantise_except are for model.quantise nf4 and fp4, the last for ",
      "int8, too; set that, or leave them out");
}

void RefuseBlockKeys(const ModelConfig& model) {
  if (!HasBlockKeys(model)) return;
  throw InputError(
      "model.quantise_block and quantise_nested are for model.quantise nf4 and fp4, and int8 has a scale for each ",
      "row; leave them out");
}

}  // namespace

void ApplyPacking(LayerGraph& graph, const Config& config) {
  const ModelConfig& model = config.model();
  if (model.quantise() == QUANTISE_NONE) return RefuseLoneKeys(model);
  const TargetNames except{"model.quantise_except", {model.quantise_except().begin(), model.quantise_except().end()}};
  if (model.quantise() == QUANTISE_INT8) {
    RefuseBlockKeys(model);
    return PackBase(graph, kInt8Storage, except);
  }
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
