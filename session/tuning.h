// From tuning: and multi_token_prediction: in a run's configuration to the graph that is trained. Reads an
// adapter's directory where the run goes on from one; no torch.
#pragma once

#include <memory>

#include "checkpoint/adapter_directory.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// How the files of the graph's model name its experts.
ExpertNames ExpertNamesOf(const LayerGraph& graph);

// The adapter that tuning.adapters names; nullptr where it names none, or where the tuning has no adapter.
std::unique_ptr<AdapterDirectory> OpenAdapter(const TuningConfig& tuning, const LayerGraph& graph);

// Adds the layers that predict further tokens, before the graph is tuned. Refuses more than the model has,
// and adapters, which have no place for them.
void ApplyMultiToken(LayerGraph& graph, const Config& config);

// The tuning as it is: where training continues from an adapter, its rank, alpha, rslora, targets and
// modules_to_save stand in place of those that the configuration has. What a run records.
TuningConfig ResolveTuning(const TuningConfig& tuning, const LayerGraph& graph);

// Freezes what is not trained, and puts low-rank pairs beside what gets them. Nothing for full tuning.
void ApplyTuning(LayerGraph& graph, const TuningConfig& tuning);

}  // namespace trireme
