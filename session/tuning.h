// From tuning: and multi_token_prediction: in a run's configuration to the graph to train. Reads an
// adapter's directory if the run starts from one; no torch.
#pragma once

#include <memory>

#include "checkpoint/adapter_directory.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// How the files of the graph's model name its experts.
ExpertNames ExpertNamesOf(const LayerGraph& graph);

// The adapter named by tuning.adapters; nullptr if it is empty or the tuning has no adapter.
std::unique_ptr<AdapterDirectory> OpenAdapter(const TuningConfig& tuning, const LayerGraph& graph);

// Adds the MTP layers, before tuning is applied. Rejects more than the model has,
// and adapters, which cannot hold them.
void ApplyMultiToken(LayerGraph& graph, const Config& config);

// The effective tuning: if training starts from an adapter, its rank, alpha, rslora, targets and
// modules_to_save replace those of the configuration. This is what a run records.
TuningConfig ResolveTuning(const TuningConfig& tuning, const LayerGraph& graph);

// Freezes what is not trained and adds LoRA adapters to the targets. Does nothing for full tuning.
void ApplyTuning(LayerGraph& graph, const TuningConfig& tuning);

}  // namespace trireme
