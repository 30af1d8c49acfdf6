#include "session/row_adapter_graph.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/json.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Of every adapter, also of those whose layers are on other ranks.
void CheckShapes(const LayerGraph& graph, const AdapterDirectory& adapter, const std::string& model) {
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {})) {
      if (!parameter.added) continue;
      for (const HfTensor& tensor : parameter.hf) {
        const Shape shape = adapter.Describe(tensor.name).shape;
        if (shape == tensor.shape) continue;
        throw InputError(adapter.path().string(), ": '", tensor.name, "' is ", ShapeText(shape), "; ", model, " needs ",
                         ShapeText(tensor.shape), "; is the adapter for another model?");
      }
    }
  }
}

// Rows use an adapter of their own instead of those that a session may train.
LayerGraph WithoutAdapters(LayerGraph graph) {
  graph.adapter.reset();
  for (Layer& layer : graph.layers) layer.low_rank.clear();
  return graph;
}

// Rows of a step are tokens there, patches in a tower: its adapters are a whole model's, not a row's.
void RefuseTowerAdapters(const LayerGraph& adapted, const AdapterDirectory& adapter) {
  for (size_t i = 0; i < EmbeddingIndex(adapted); ++i) {
    if (adapted.layers[i].low_rank.empty()) continue;
    throw InputError(adapter.path().string(), ": has adapters in the vision tower or its aligner (",
                     adapted.layers[i].name,
                     "), which rows of other adapters share; serve the merged model (trireme merge), or the adapter "
                     "alone as --model");
  }
}

}  // namespace

LayerGraph GraphWithRowAdapter(const LayerGraph& graph, const AdapterDirectory& adapter, const std::string& model) {
  const AdapterPlan plan = adapter.Plan();
  if (!plan.saved.empty()) {
    throw InputError(adapter.path().string(), ": replaces ", *plan.saved.begin(),
                     " (modules_to_save), which rows of other adapters share; serve the merged model "
                     "(trireme merge), or the adapter alone as --model");
  }
  if (plan.dora) {
    throw InputError(adapter.path().string(),
                     ": is a DoRA adapter (use_dora), whose magnitudes rows of other adapters do not "
                     "have; serve the merged model (trireme merge), or the adapter alone as --model");
  }
  LayerGraph adapted = WithoutAdapters(graph);
  try {
    ApplyAdapter(adapted, plan);
  } catch (const Error& error) {
    throw InputError(adapter.path().string(), ": ", error.what(), "; is the adapter for another model?");
  }
  RefuseTowerAdapters(adapted, adapter);
  CheckShapes(adapted, adapter, model);
  return adapted;
}

std::string DoubtAboutBase(const AdapterDirectory& adapter, const std::string& model) {
  const Json& config = adapter.config().json();
  const auto named = config.find("base_model_name_or_path");
  if (named == config.end() || !named->is_string() || named->get<std::string>().empty()) return "";
  const fs::path base = named->get<std::string>();
  std::error_code ignored;
  const fs::path own = fs::path(model) / "config.json";
  const bool here = fs::exists(base / "config.json", ignored) && fs::exists(own, ignored);
  if (here && fs::equivalent(base, model, ignored)) return "";
  if (here && ReadJsonFile((base / "config.json").string()) != ReadJsonFile(own.string())) {
    throw InputError(adapter.path().string(), ": its base model is ", base.string(), ", not ", model,
                     ", and their config.json differ; serve it with its own base");
  }
  if (!here && base.filename() == fs::path(model).filename()) return "";
  return Concat(adapter.path().string(), " names the base model ", base.string(), ", not ", model);
}

}  // namespace trireme
