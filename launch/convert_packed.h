// `--quantise` of `trireme convert` and `trireme merge`: a Hugging Face directory whose matrices are packed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/convert.h"
#include "core/cli/command.h"
#include "parallel/graph/graph.h"

namespace trireme {

// The options of a command that speak of it.
std::vector<Option> PackingOptions();
// Refuses those that say how, where nothing is packed.
void RefuseLonePacking(const Arguments& arguments);

// What is packed, and how: as the options say, of a model with this graph. Lives as long as the conversion.
class Packing {
 public:
  // change: what is merged into it meanwhile; nullptr: nothing.
  Packing(const Arguments& arguments, const HfDirectory& source, LayerGraph graph,
          const TensorChange* change = nullptr);

  // config: the text of config.json otherwise.
  void AddTo(ConvertOptions& options, const std::string& config, const HfDirectory& source) const;
  size_t size() const { return pack_.matrices.size(); }

 private:
  void FindMatrices(const HfDirectory& source, const LayerGraph& graph, bool experts);
  void FindSkipped(const LayerGraph& graph, const TensorChange* change);
  void RefusePackedAlready(const HfDirectory& source, const TensorChange* change) const;
  std::string SkippedName(const std::string& module) const;

  std::unique_ptr<PackedWriter> writer_;
  PackOptions pack_;
  std::vector<std::string> skipped_;  // linear modules that are not packed
};

}  // namespace trireme
