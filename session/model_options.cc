#include "session/model_options.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "session/run_plan.h"

namespace trireme {
namespace {

Keep KeepOf(Recompute recompute) {
  switch (recompute) {
    case RECOMPUTE_NONE:
      return Keep::kAll;
    case RECOMPUTE_SELECTIVE:
      return Keep::kSelected;
    case RECOMPUTE_FULL:
      return Keep::kLayerInputs;
  }
  return Keep::kAll;
}

BalanceOver BalanceOf(const ExpertsConfig& experts) {
  if (experts.balance_coefficient() == 0) return BalanceOver::kNothing;
  switch (experts.balance()) {
    case BALANCE_SEQUENCE:
      return BalanceOver::kSequence;
    case BALANCE_BATCH:
      return BalanceOver::kBatch;
    case BALANCE_GLOBAL:
      return BalanceOver::kGlobal;
    case BALANCE_POOLED:
      return BalanceOver::kPooled;
  }
  return BalanceOver::kNothing;
}

int64_t CountExpertLayers(const LayerGraph& graph) {
  return std::count_if(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    return decoder != nullptr && decoder->experts.has_value();
  });
}

Masters MastersOf(MasterType type) {
  if (type == MASTERS_NONE) return Masters::kNone;
  return type == MASTERS_SPLIT ? Masters::kSplit : Masters::kFp32;
}

RouterOptions RouterOf(const ExpertsConfig& experts, const LayerGraph& graph) {
  const ExpertOverflow overflow = experts.overflow() == OVERFLOW_DROP  ? ExpertOverflow::kDrop
                                  : experts.overflow() == OVERFLOW_PAD ? ExpertOverflow::kPad
                                                                       : ExpertOverflow::kKeep;
  return {.balance = BalanceOf(experts),
          .balance_coefficient = experts.balance_coefficient(),
          .z_coefficient = experts.z_coefficient(),
          .overflow = overflow,
          .capacity = experts.capacity(),
          .all_gather = experts.dispatch() == DISPATCH_ALL_GATHER,
          .layers = CountExpertLayers(graph)};
}

int64_t KeptFeatureBytes(const MemoryConfig& memory, const LayerGraph& graph) {
  if (memory.vision_features_mb() == 0) return 0;
  if (!graph.images) {
    throw InputError("memory.vision_features_mb is for models with a vision tower, which ", graph.family,
                     " has not; leave it out");
  }
  if (FirstTrained(graph) < EmbeddingIndex(graph)) {
    throw InputError("memory.vision_features_mb keeps what does not change, but ",
                     graph.layers[FirstTrained(graph)].name,
                     " is trained; add vision and aligner to tuning.freeze, or leave it out");
  }
  return int64_t{memory.vision_features_mb()} << 20;
}

}  // namespace

ModelOptions ModelOptionsOf(const Config& config, const LayerGraph& graph) {
  return {.type = ToTorch(DTypeOf(config.model())),
          .zero = config.parallel().zero(),
          .sequence = config.parallel().sequence(),
          .keep = KeepOf(config.memory().recompute()),
          .recompute_every = config.memory().recompute_every(),
          .offload_activations = config.memory().offload_activations(),
          .masters = MastersOf(config.optimizer().masters()),
          .offload_parameters = config.memory().offload_parameters(),
          .hidden_dropout = config.tuning().hidden_dropout(),
          .neftune_alpha = config.tuning().neftune_alpha(),
          .kept_feature_bytes = KeptFeatureBytes(config.memory(), graph),
          .router = RouterOf(config.experts(), graph)};
}

}  // namespace trireme
