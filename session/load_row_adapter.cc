#include "session/load_row_adapter.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "session/load_weights.h"
#include "session/model_options.h"
#include "session/row_adapter_graph.h"
#include "session/session.h"
#include "session/tuning.h"

namespace trireme {

std::shared_ptr<const AdapterWeights> LoadRowAdapter(Session& session, const std::string& directory) {
  const AdapterDirectory files(directory, ExpertNamesOf(session.graph()));
  const LayerGraph graph = GraphWithRowAdapter(session.graph(), files, session.config().model().path());
  const Weights& own = session.model().weights();
  std::vector<Layer> layers;
  for (const Layer& layer : graph.layers) {
    if (own.FindEntry(layer.name + ".attention.output.weight") != nullptr) layers.push_back(layer);
  }
  const Grids& grids = session.plan().grids;
  const bool experts = HasExperts(graph);
  auto adapter = std::make_shared<AdapterWeights>(graph, std::move(layers), grids,
                                                  TensorSplit{.size = grids.dense.Size("tp"),
                                                              .sequence = session.config().parallel().sequence(),
                                                              .expert = experts ? grids.expert.Size("ep") : 1,
                                                              .expert_tensor = experts ? grids.expert.Size("etp") : 1});
  // In the dtype of the computation, as a session loads an adapter of its own.
  const auto options =
      at::TensorOptions(ModelOptionsOf(session.config(), graph).type).device(session.tensors().torch());
  for (Weights::Entry* entry : adapter->entries()) {
    entry->weight.value = at::zeros(entry->placement.LocalShape(), options);
  }
  LoadWeights(files, adapter->entries(), session.job().rank());
  return adapter;
}

}  // namespace trireme
