// `trireme convert --quantise`: a Hugging Face directory of the same model whose matrices are in 4 bits.
#pragma once

#include <vector>

#include "checkpoint/convert.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "parallel/graph/graph.h"

namespace trireme {

// The options of the command that speak of it.
std::vector<Option> PackingOptions();

// Collective. options: of the conversion otherwise.
void ConvertToPacked(const Arguments& arguments, const HfDirectory& source, LayerGraph graph, ConvertOptions options, Job& job);

}  // namespace trireme
