#include "train/plan/check_options.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "data/stream.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"
#include "stages/other_models.h"
#include "train/step/part_rates.h"

namespace trireme {
namespace {

constexpr char kMuonName[] = "muon";

// A stream knows what a row costs only when it has been read.
void CheckSharing(const DataConfig& data) {
  if (data.balance() == ROWS_IN_ORDER || !data.streaming()) return;
  throw InputError(
      "data.balance cost needs to know the rows of a step before they are read; leave it out, or data.streaming");
}

void CheckOffloadedParameters(const Config& config) {
  const MemoryConfig& memory = config.memory();
  if (!memory.offload_parameters()) return;
  const auto refuse = [](const char* why) { throw InputError("memory.offload_parameters ", why); };
  if (memory.offload_reference())
    refuse("is for a reference, too, with parallel.zero 3; turn memory.offload_reference off");
  if (config.reference_sync().steps() > 0)
    refuse("does not go with reference_sync, which mixes weights on the device; leave one out");
  const OptimizerConfig& optimizer = config.optimizer();
  if (optimizer.masters() == MASTERS_SPLIT)
    refuse("does not go with optimizer.masters split, whose halves stay together; use fp32");
  const bool own_masters = config.model().dtype() == DTYPE_FP32 || optimizer.masters() == MASTERS_NONE;
  if (own_masters && config.tuning().kind() == TUNING_FULL && !memory.offload_optimizer()) {
    refuse(
        "has nothing to move: these weights are updated as they are; set memory.offload_optimizer, or bf16 with "
        "masters");
  }
}

void CheckMuon(const Config& config) {
  if (config.optimizer().name() != kMuonName || !config.memory().offload_optimizer()) return;
  throw InputError("optimizer.name muon gathers whole matrices on the device; with memory.offload_optimizer use adamw");
}

// Optimizers that work on whole tensors.
void CheckWholeTensors(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer();
  const bool adafactor = optimizer.name() == "adafactor", codes = optimizer.moments() == MOMENTS_8BIT;
  if (codes && !adafactor && optimizer.name() != "adamw") {
    throw InputError("optimizer.moments 8bit is for optimizer.name adamw, it is ", optimizer.name(),
                     "; change one of them");
  }
  if ((adafactor || codes) && config.memory().offload_optimizer()) {
    throw InputError(adafactor ? "optimizer.name adafactor" : "optimizer.moments 8bit",
                     " keeps its few states on the device; turn memory.offload_optimizer off");
  }
}

// Packed weights are frozen: what trains is an adapter, whose adapters start beside them.
void CheckPackedTraining(const Config& config) {
  const TuningConfig& tuning = config.tuning();
  const bool fp8 = config.model().fp8() != FP8_NONE;
  if (config.model().quantise() == QUANTISE_NONE && !fp8) return;
  if (fp8 && tuning.kind() != TUNING_LORA) return;  // weights are stored as they are, and cast
  const std::string key = fp8 ? "model.fp8" : "model.quantise";
  const auto refuse = [&](const std::string& why) { throw InputError(key, ": ", why); };
  if (tuning.kind() != TUNING_LORA) {
    refuse("packed weights cannot be trained themselves; set tuning.kind: lora, or leave model.quantise out");
  }
  if (tuning.init() != ADAPTER_INIT_LORA) {
    refuse(
        "tuning.init pissa and olora change the weights beside the adapters, which are packed; use tuning.init: lora");
  }
  if (OtherModelOf(config, ModelRole::kSampler)) {
    refuse(
        "rl.sampling: weights travel to another layout as they are computed with, and packed ones do not; leave "
        "rl.sampling "
        "out, so that completions are sampled on the layout of training");
  }
}

std::vector<Parameter> AllParameters(const LayerGraph& graph) {
  std::vector<Parameter> parameters;
  for (const Layer& layer : graph.layers) {
    for (Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) parameters.push_back(std::move(parameter));
  }
  return parameters;
}

// Of experts that files stack, each matrix would have to be orthogonalised, or its squares averaged, for itself.
void CheckStacks(const Config& config, const LayerGraph& graph) {
  const std::string& name = config.optimizer().name();
  if (name != kMuonName && name != "adafactor") return;
  for (const Parameter& parameter : AllParameters(graph)) {
    const bool stack = !parameter.hf.empty() && parameter.hf.front().shape.size() > 2;
    if (!stack || !parameter.trained) continue;
    throw InputError("optimizer.name ", name, ": ", parameter.hf.front().name, " is a stack of matrices, ",
                     ShapeText(parameter.hf.front().shape), ", and it knows only matrices; use adamw, or freeze it");
  }
}

// Dropout of an adapter's input follows a token's place in its row, which patches of images do not have.
void CheckTowerDropout(const LayerGraph& graph) {
  if (graph.adapter->dropout == 0) return;
  for (const Layer& layer : graph.layers) {
    if (PartOf(layer) == ModelPart::kLanguage || layer.low_rank.empty()) continue;
    const std::string& weight = layer.hf_names.at(layer.low_rank.begin()->first + ".weight");
    throw InputError("tuning.dropout = ", graph.adapter->dropout, ": ", weight.substr(0, weight.rfind('.')),
                     " is in the vision tower or its aligner, whose LoRA adapters have no dropout; set it to 0");
  }
}

// A start that needs more than the weight has, and DoRA whose length PEFT takes of inputs that are dropped.
void CheckAdapter(const Config& config, const LayerGraph& graph) {
  if (!graph.adapter) return;
  if (graph.adapter->dora && graph.adapter->dropout > 0) {
    throw InputError("tuning.dropout = ", graph.adapter->dropout, " with DoRA (tuning.dora): set it to 0");
  }
  CheckTowerDropout(graph);
  if (graph.adapter->init.empty()) return;
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : AllParameters(graph)) {
    for (const HfTensor& tensor : parameter.hf) shapes[tensor.name] = tensor.shape;
  }
  for (const auto& [name, module] : graph.adapter->modules) {
    const Shape& shape = shapes.at(name + ".weight");
    const int64_t least = std::min(shape[0], shape[1]);
    if (module.rank <= least) continue;
    throw InputError("tuning.rank = ", module.rank, " with tuning.init ", graph.adapter->init, ": ", name, " is ",
                     ShapeText(shape), ", which has ", least, " singular values; set at most that, or exclude it ",
                     "(tuning.exclude)");
  }
}

}  // namespace

void CheckTrainingOptions(const Config& config, Problems& problems) {
  problems.Try([&] { CheckSharing(config.data()); });
  problems.Try([&] { CheckOffloadedParameters(config); });
  problems.Try([&] { CheckMuon(config); });
  problems.Try([&] { CheckWholeTensors(config); });
  problems.Try([&] { CheckPackedTraining(config); });
  problems.Try([&] { CheckStreaming(config); });
}

void CheckParameterOptions(const Config& config, const LayerGraph& graph) {
  CheckAdapter(config, graph);
  CheckStacks(config, graph);
  if (config.optimizer().lr_by_name().empty()) return;
  LrFactorsOf(config.optimizer(), graph).Check(AllParameters(graph));
}

}  // namespace trireme
