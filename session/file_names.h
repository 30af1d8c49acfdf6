// Two spellings of one model: files of Qwen2.5-VL name tensors as transformers did before 4.52 ("visual.…",
// "model.layers.…"), some as its modules are called since ("model.visual.…", "model.language_model.layers.…"). A graph
// takes the names of the files that are there, so that what is written is named as what was read. No torch.
#pragma once

#include <filesystem>

#include "checkpoint/hf_directory.h"
#include "parallel/graph/graph.h"

namespace trireme {

void TakeFileNames(LayerGraph& graph, const HfDirectory& files);
// The same of a model's directory; one without weights changes nothing.
void TakeFileNames(LayerGraph& graph, const std::filesystem::path& directory);

}  // namespace trireme
