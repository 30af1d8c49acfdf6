// A LoRA adapter that is to be used by some rows of a generation pass, checked against the model before anything is
// loaded: the model's graph with it. Reads the adapter's names and shapes, no weights; no torch.
#pragma once

#include <string>

#include "checkpoint/adapter_directory.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Refuses an adapter that replaces weights (modules_to_save), which cannot differ by row, that names modules the
// model does not have, or whose shapes are another model's. `model`: the model's directory, for messages.
LayerGraph GraphWithRowAdapter(const LayerGraph& graph, const AdapterDirectory& adapter, const std::string& model);

// What speaks against the adapter's base being `model`: it names another directory; empty: nothing. Refuses one
// that was made for a model with another config.json.
std::string DoubtAboutBase(const AdapterDirectory& adapter, const std::string& model);

}  // namespace trireme
