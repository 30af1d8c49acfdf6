#include "session/fp8.h"

#include "core/base/error.h"
#include "core/device/cann_info.h"
#include "models/hf_config.h"
#include "parallel/graph/tuning.h"
#include "session/run_plan.h"

namespace trireme {
namespace {

constexpr int64_t kMultiple = 16;  // of sizes that tensor cores multiply in FP8

[[noreturn]] void Refuse(const std::string& why) { throw InputError("model.fp8: ", why); }

void RefuseDevice(const Config& config) {
  const bool npu = config.device() == DEVICE_NPU || (config.device() == DEVICE_AUTO && CannProvider() == "ascend");
  if (!npu) return;
  Refuse(
      "device npu has no products in FP8 before the Ascend 950 (910B and 910C multiply int8); use device cuda or cpu, "
      "or "
      "leave model.fp8 out");
}

void RefuseOtherCodes(const Config& config) {
  const ModelConfig& model = config.model();
  if (model.fp8() == FP8_BLOCKS) Refuse("blocks is not supported yet; use rows");
  if (model.quantise() != QUANTISE_NONE) {
    Refuse("rows beside model.quantise: weights are stored in one way; leave one of them out");
  }
  if (!HfConfig::Read(model.path()).Has("quantization_config")) return;
  Refuse(Concat("rows casts plain weights, and ", model.path(), "'s config.json has a quantization_config; ",
                "look for the same model in bf16, or leave model.fp8 out"));
}

int64_t SizeOnRank(const Dim& dim) {
  int64_t size = 0;
  for (const Block& block : dim.blocks) size += (block.size + block.padding) / block.parts;
  return size;
}

void CheckSizes(const Parameter& parameter) {
  for (const Dim& dim : parameter.declaration.dims) {
    if (SizeOnRank(dim) % kMultiple == 0) continue;
    Refuse(Concat(parameter.declaration.name, " has ", SizeOnRank(dim), dim.axis.empty() ? "" : " on each rank",
                  " in one of its dims, which is no multiple of ", kMultiple, "; list ", parameter.hf.front().name,
                  " in model.fp8_skip", dim.axis.empty() ? "" : ", or choose another parallel.tensor"));
  }
}

// Each rank of several with the same outputs has a part of their gradient, and would round that.
void CheckCopies(const Parameter& parameter, int tensor) {
  for (const Block& block : parameter.declaration.dims.front().blocks) {
    if (parameter.declaration.dims.front().axis.empty() || block.parts == tensor) continue;
    Refuse(Concat(parameter.declaration.name, ": parallel.tensor = ", tensor, " gives ", tensor / block.parts,
                  " ranks the same key-value heads, of which there are ", block.parts, "; choose at most ",
                  block.parts));
  }
}

}  // namespace

void ApplyFp8(LayerGraph& graph, const Config& config) {
  const ModelConfig& model = config.model();
  if (model.fp8() == FP8_NONE) {
    if (model.fp8_skip().empty()) return;
    throw InputError("model.fp8_skip is for model.fp8 rows; set that, or leave it out");
  }
  RefuseOtherCodes(config);
  RefuseDevice(config);
  const TargetNames skipped{"model.fp8_skip", {model.fp8_skip().begin(), model.fp8_skip().end()}};
  if (config.tuning().kind() == TUNING_LORA) {
    PackBase(graph, kFp8Storage, skipped);
  } else {
    CastProducts(graph, skipped);
  }
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, SplitOf(config.parallel()))) {
      if (!parameter.packed && !parameter.cast_to_fp8) continue;
      CheckSizes(parameter);
      CheckCopies(parameter, config.parallel().tensor());
    }
  }
}

}  // namespace trireme
