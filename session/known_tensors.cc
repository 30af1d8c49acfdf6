#include "session/known_tensors.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/adapter_directory.h"
#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "parallel/graph/parameters.h"

namespace trireme {
namespace {

constexpr std::string_view kScaleSuffix = "_scale_inv";  // of fp8 blocks
// Fused experts, and the name of the first expert's tensor in files that store them separately.
constexpr std::pair<std::string_view, std::string_view> kFused[] = {
    {".experts.gate_up_proj", ".experts.0.gate_proj.weight"},
    {".experts.gate_up_proj", ".experts.0.up_proj.weight"},
    {".experts.down_proj", ".experts.0.down_proj.weight"}};

template <typename Visit>
void ForEachTensor(const LayerGraph& graph, const Visit& visit) {
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) visit(parameter);
  }
}

std::set<std::string> NamesOf(const LayerGraph& graph) {
  std::set<std::string> names;
  ForEachTensor(graph, [&](const Parameter& parameter) {
    for (const HfTensor& tensor : parameter.hf) {
      names.insert(tensor.name);
      names.insert(tensor.repeated.begin(), tensor.repeated.end());
    }
  });
  return names;
}

// Tensors that belong to a known one: scales of fp8 blocks, fused experts.
bool IsPartOf(const std::string& name, const std::set<std::string>& known) {
  const auto without = [&](std::string_view end) { return name.substr(0, name.size() - end.size()); };
  if (name.ends_with(kScaleSuffix)) return known.contains(without(kScaleSuffix));
  return std::ranges::any_of(kFused, [&](const auto& pair) {
    return name.ends_with(pair.first) && known.contains(without(pair.first) + std::string(pair.second));
  });
}

// Whether all experts of the layer are fused in one tensor; `first` is the name of expert 0's.
bool HasFused(const HfDirectory& directory, const std::string& first) {
  return std::ranges::any_of(kFused, [&](const auto& pair) {
    return first.ends_with(pair.second) &&
           directory.Has(first.substr(0, first.size() - pair.second.size()) + std::string(pair.first));
  });
}

[[noreturn]] void RefuseName(const std::string& where, const std::string& name, const LayerGraph& graph,
                             const std::set<std::string>& known) {
  const auto nearest = Nearest(name, std::vector<std::string>(known.begin(), known.end()));
  throw InputError(where, ": tensor '", name, "' belongs to no layer of a ", graph.family, " model with this config",
                   nearest ? Concat("; nearest: '", *nearest, "'") : "");
}

}  // namespace

bool IsUnused(const std::string& name, const LayerGraph& graph) {
  return std::ranges::any_of(graph.unused, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

void RefuseUnknownTensors(const HfDirectory& directory, const LayerGraph& graph) {
  const std::set<std::string> known = NamesOf(graph);
  for (const std::string& name : directory.Names()) {
    // Some files repeat a tied head, and old ones store the rotary frequencies: both are redundant.
    const bool repeated = HasTiedHead(graph) && name == "lm_head.weight";
    if (IsUnused(name, graph) || IsPartOf(name, known)) continue;
    if (IsValueHead(name)) continue;  // in checkpoints of stage ppo; other stages leave it out
    if (repeated || name.ends_with(".rotary_emb.inv_freq") || known.contains(name)) continue;
    RefuseName(directory.FileOf(name).string(), name, graph, known);
  }
}

void RefuseMissingTensors(const HfDirectory& directory, const LayerGraph& graph) {
  ForEachTensor(graph, [&](const Parameter& parameter) {
    if (HasFused(directory, parameter.hf.front().name)) return;
    for (const HfTensor& tensor : parameter.hf) {
      if (directory.Has(tensor.name)) continue;
      throw InputError(directory.path().string(), ": tensor '", tensor.name, "' of a ", graph.family,
                       " model with this config is missing");
    }
  });
}

void RefuseUnknownModules(const HfDirectory& adapter, const LayerGraph& graph) {
  const std::set<std::string> known = NamesOf(graph);
  for (const std::string& name : adapter.Names()) {
    if (IsValueHead(name)) continue;
    const std::optional<AdapterTensorNames> names = AdapterTensorNamesOf(name);
    const std::string weight = names ? names->module + ".weight" : name;
    const bool tied = HasTiedHead(graph) && weight == "lm_head.weight";
    if (!tied && !known.contains(weight)) RefuseName(adapter.FileOf(name).string(), name, graph, known);
  }
}

void RefuseUnknownKeys(const StoreReader& reader, const KnownKeys& keys) {
  std::set<std::string> known;
  for (const std::string& name : keys.weights) known.insert("weights/" + name);
  for (const std::string& state : keys.states) {
    for (const std::string& name : keys.trained) known.insert(state + "/" + name);
  }
  for (const checkpoint::Tensor& tensor : reader.manifest().tensors()) {
    if (known.contains(tensor.key())) continue;
    const auto nearest = Nearest(tensor.key(), std::vector<std::string>(known.begin(), known.end()));
    throw InputError(reader.path().string(), ": tensor '", tensor.key(), "' does not belong to this run",
                     nearest ? Concat("; nearest: '", *nearest, "'") : "");
  }
}

}  // namespace trireme
