#include "train/check_options.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/graph/parameters.h"
#include "parallel/sharding/lr_factors.h"

namespace trireme {
namespace {

constexpr char kMuonName[] = "muon";

// The loss of these stages is the cross-entropy of trained tokens.
bool TrainsTokens(Stage stage) { return stage == STAGE_PT || stage == STAGE_SFT; }

void CheckTokenOptions(const Config& config) {
  if (TrainsTokens(config.stage())) return;
  const auto refuse = [](const char* key, double value) {
    if (value > 0) throw InputError(key, " = ", value, " is for stages pt and sft; leave it out");
  };
  refuse("loss.label_smoothing", config.loss().label_smoothing());
  refuse("loss.z_coefficient", config.loss().z_coefficient());
  refuse("tuning.neftune_alpha", config.tuning().neftune_alpha());
}

void CheckRecomputeEvery(const MemoryConfig& memory) {
  if (memory.recompute_every() == 1 || memory.recompute() == RECOMPUTE_FULL) return;
  throw InputError("memory.recompute_every = ", memory.recompute_every(),
                   " is for memory.recompute full; set that, or leave it out");
}

void CheckMuon(const Config& config) {
  if (config.optimizer().name() != kMuonName || !config.memory().offload_optimizer()) return;
  throw InputError("optimizer.name muon gathers whole matrices on the device; with memory.offload_optimizer use adamw");
}

void CheckAverage(const Config& config) {
  const double ema = config.optimizer().ema();
  if (ema == 0 || config.tuning().kind() != TUNING_LORA) return;
  throw InputError("optimizer.ema = ", ema, " is for tuning.kind full and freeze: adapters are not averaged; leave it out");
}

}  // namespace

void CheckTrainingOptions(const Config& config, Problems& problems) {
  problems.Try([&] { CheckTokenOptions(config); });
  problems.Try([&] { CheckRecomputeEvery(config.memory()); });
  problems.Try([&] { CheckMuon(config); });
  problems.Try([&] { CheckAverage(config); });
}

void CheckParameterOptions(const Config& config, const LayerGraph& graph) {
  const auto& entries = config.optimizer().lr_by_name();
  if (entries.empty()) return;
  std::vector<Parameter> parameters;
  for (const Layer& layer : graph.layers) {
    for (Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) parameters.push_back(std::move(parameter));
  }
  LrFactors({entries.begin(), entries.end()}).Check(parameters);
}

}  // namespace trireme
