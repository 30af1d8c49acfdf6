#include "checkpoint/megatron/written_layout.h"

#include <numeric>
#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

// One key of the layout, and what it must divide.
void RefuseUndivided(const char* key, int64_t ranks, const char* what, int64_t number) {
  if (number % ranks == 0) return;
  throw InputError(key, "=", ranks, " does not divide the model's ", number, " ", what,
                   "; wanted a divisor of it for Megatron's files");
}

void RefuseStageLayers(const std::vector<int64_t>& stages, int64_t layers, const MegatronExport& options) {
  const int64_t sum = std::accumulate(stages.begin(), stages.end(), int64_t{0});
  if (static_cast<int64_t>(stages.size()) != options.layout.pipeline || sum != layers || options.virtual_stages != 1)
    throw InputError("parallel.stage_layers has ", stages.size(), " stages with ", sum, " layers; wanted ",
                     options.layout.pipeline, " stages (parallel.pipeline) with the model's ", layers,
                     " layers, and parallel.virtual_stages 1");
  for (size_t stage = 1; stage + 1 < stages.size(); ++stage) {
    if (stages[stage] != stages[1])
      throw InputError("parallel.stage_layers: stage ", stage, " has ", stages[stage], " layers, and stage 1 has ",
                       stages[1], "; in Megatron only the first and the last stage may differ from the others");
  }
}

void RefuseLayers(int64_t layers, const MegatronExport& options) {
  const int64_t pipeline = options.layout.pipeline, chunks = options.virtual_stages;
  if (chunks > 1 && pipeline == 1)
    throw InputError("parallel.virtual_stages=", chunks,
                     " with parallel.pipeline=1: Megatron has several chunks per stage only with several stages");
  if (!options.stage_layers.empty()) return RefuseStageLayers(options.stage_layers, layers, options);
  if (layers % (pipeline * chunks) == 0) return;
  throw InputError("parallel.pipeline=", pipeline, " x parallel.virtual_stages=", chunks,
                   " does not divide the model's ", layers, " layers; set parallel.stage_layers, such as ",
                   "[5, 6, 6, 5], or another pipeline");
}

void RefuseExperts(const WrittenModel& model, const MegatronLayout& layout) {
  if (layout.expert > 1 && model.experts() == 0)
    throw InputError("parallel.expert=", layout.expert, ": a ", model.names().family(),
                     " has no experts; leave it out");
  if (model.experts() > 0) RefuseUndivided("parallel.expert", layout.expert, "experts", model.experts());
  if (layout.expert_tensor == 1 || layout.expert_tensor == layout.tensor) return;
  throw InputError("parallel.expert_tensor=", layout.expert_tensor, " with parallel.tensor=", layout.tensor,
                   "; wanted 1 or the same for Megatron's files");
}

}  // namespace

std::vector<LayerPlace> PlacesOfLayers(int64_t layers, const MegatronExport& options) {
  std::vector<LayerPlace> places;
  const int64_t pipeline = options.layout.pipeline, chunks = options.virtual_stages;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (int64_t stage = 0; stage < pipeline; ++stage) {
      const int64_t count = options.stage_layers.empty() ? layers / (pipeline * chunks)
                                                         : options.stage_layers[static_cast<size_t>(stage)];
      for (int64_t number = 0; number < count; ++number) places.push_back({stage, chunk, number});
    }
  }
  return places;
}

// Ranks of a stage count tensor-parallel ranks first; of the experts' grid its own tensor-parallel ranks, then experts.
std::set<std::pair<int64_t, int64_t>> TensorAndExpertRanks(const MegatronLayout& layout) {
  std::set<std::pair<int64_t, int64_t>> ranks;
  const int64_t all = std::lcm(layout.tensor, layout.expert_tensor * layout.expert);
  for (int64_t rank = 0; rank < all; ++rank)
    ranks.emplace(rank % layout.tensor, rank / layout.expert_tensor % layout.expert);
  return ranks;
}

WrittenSplit SplitOf(const WrittenTensor& tensor, const MegatronLayout& layout) {
  const bool is_expert = tensor.name.find(kMegatronExperts) != std::string::npos;
  return {SplitOf(tensor.name, layout), is_expert ? layout.expert_tensor : layout.tensor};
}

void RefuseOtherSizes(const WrittenModel& model, const MegatronExport& options) {
  const MegatronLayout& layout = options.layout;
  RefuseLayers(model.names().layers(), options);
  RefuseExperts(model, layout);
  RefuseUndivided("parallel.tensor", layout.tensor, "attention heads", model.names().heads());
  if (!model.names().latent())
    RefuseUndivided("parallel.tensor", layout.tensor, "heads of keys and values", model.names().groups());
  for (const WrittenTensor& tensor : model.tensors()) {
    const WrittenSplit split = SplitOf(tensor, layout);
    if (split.split == MegatronSplit::kNone || split.parts == 1) continue;
    const int64_t halves = split.split == MegatronSplit::kHalves ? 2 : 1;
    const int64_t size = tensor.shape[split.split == MegatronSplit::kColumns ? 1 : 0];
    if (size % (halves * split.parts) != 0)
      throw InputError("'", tensor.parts.front().hf_name, "' has ", size / halves,
                       " rows or columns, which are not divisible by ", split.parts, " tensor-parallel ranks");
  }
}

}  // namespace trireme
