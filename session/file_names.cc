#include "session/file_names.h"

#include <algorithm>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/memory_names.h"
#include "core/base/file.h"

namespace trireme {
namespace {

// Whether a family with two spellings has the older one in its graph, by the tower's first tensor.
bool HasOlderSpelling(const LayerGraph& graph) {
  const HfNames& first = graph.layers.front().hf_names;
  const auto patch = first.find("patch.weight");
  return patch != first.end() && NameInMemory(patch->second) != patch->second;
}

bool HasWeights(const std::filesystem::path& directory) {
  return IsCheckpoint(directory) || PathExists(directory / "model.safetensors") ||
         PathExists(directory / "model.safetensors.index.json");
}

}  // namespace

void TakeFileNames(LayerGraph& graph, const HfDirectory& files) {
  const std::vector<std::string> names = files.Names();
  const auto is_newer = [](const std::string& name) { return NameInOlderFiles(name) != name; };
  if (!HasOlderSpelling(graph) || std::ranges::none_of(names, is_newer)) return;
  for (Layer& layer : graph.layers) {
    for (auto& [role, name] : layer.hf_names) name = NameInMemory(name);
  }
}

void TakeFileNames(LayerGraph& graph, const std::filesystem::path& directory) {
  if (HasOlderSpelling(graph) && HasWeights(directory)) TakeFileNames(graph, HfDirectory(directory));
}

}  // namespace trireme
