#include "parallel/graph/mtp.h"

#include <string>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

// Files repeat the embedding and the logits' weight at each depth.
void RepeatShared(LayerGraph& graph, const HfNames& names) {
  Layer &embedding = graph.layers[EmbeddingIndex(graph)], &head = graph.layers.back();
  const bool tied = std::get<HeadSpec>(head.spec).tied;
  embedding.repeated["embedding.weight"].push_back(names.at("embedding.weight"));
  std::vector<std::string>& logits = tied ? embedding.repeated["embedding.weight"] : head.repeated["logits.weight"];
  logits.push_back(names.at("logits.weight"));
}

}  // namespace

void AddMtpLayers(LayerGraph& graph, int64_t mtp_depths, double weight) {
  if (mtp_depths == 0) return;
  TRIREME_CHECK(mtp_depths <= static_cast<int64_t>(graph.mtp.size()))
      << mtp_depths << " mtp depths; the model has " << graph.mtp.size();
  auto& head = std::get<HeadSpec>(graph.layers.back().spec);
  head.mtp_depths = mtp_depths;
  head.mtp_weight = weight / static_cast<double>(mtp_depths);
  graph.mtp.front().hf_names["model_norm.weight"] = graph.layers.back().hf_names.at("norm.weight");
  const int64_t padding = std::get<EmbeddingSpec>(graph.layers[EmbeddingIndex(graph)].spec).padding;
  for (int64_t depth = 0; depth < mtp_depths; ++depth) {
    RepeatShared(graph, graph.mtp[depth].hf_names);
    std::get<MtpSpec>(graph.mtp[depth].spec).padding = padding;
  }
  const auto used = graph.mtp.begin() + mtp_depths;
  graph.layers.insert(graph.layers.end() - 1, graph.mtp.begin(), used);
  graph.mtp.erase(graph.mtp.begin(), used);
  graph.unused.erase(graph.unused.begin(), graph.unused.begin() + mtp_depths);
}

}  // namespace trireme
