#include "parallel/graph/graph.h"

#include <algorithm>
#include <sstream>

namespace trireme {
namespace {

struct Describe {
  std::ostream& out;

  void operator()(const EmbeddingSpec& spec) const {
    out << "embedding " << spec.vocabulary << " x " << spec.hidden;
  }
  void operator()(const DecoderSpec& spec) const {
    out << "attention " << spec.attention.heads << " heads of " << spec.attention.head_dim << " ("
        << spec.attention.kv_heads << " key-value), ";
    if (!spec.experts) {
      out << "mlp " << spec.mlp.hidden << " > " << spec.mlp.ffn;
      return;
    }
    const ExpertsSpec& experts = *spec.experts;
    out << experts.router.top_k << " of " << experts.router.experts << " experts " << experts.hidden << " > "
        << experts.ffn;
    if (experts.shared_ffn > 0) out << ", shared " << experts.hidden << " > " << experts.shared_ffn;
  }
  void operator()(const HeadSpec& spec) const {
    out << "head " << spec.hidden << " > " << spec.vocabulary << (spec.tied ? ", tied to the embedding" : "");
  }
  void operator()(const MtpSpec& spec) const {
    out << "token " << spec.depth + 1 << " after: ";
    (*this)(spec.decoder);
  }
};

}  // namespace

int64_t DecodersIn(const LayerGraph& graph) {
  return std::count_if(graph.layers.begin(), graph.layers.end(),
                       [](const Layer& layer) { return std::holds_alternative<DecoderSpec>(layer.spec); });
}

int64_t VocabularyOf(const LayerGraph& graph) {
  return std::get<EmbeddingSpec>(graph.layers.front().spec).vocabulary;
}

int64_t HiddenOf(const LayerGraph& graph) {
  return std::get<EmbeddingSpec>(graph.layers.front().spec).hidden;
}

std::string ToText(const LayerGraph& graph) {
  std::ostringstream out;
  out << graph.family << ", " << Name(graph.dtype) << ", " << graph.layers.size() << " layers\n";
  for (const Layer& layer : graph.layers) {
    out << "  " << layer.name << ": ";
    std::visit(Describe{out}, layer.spec);
    out << "\n";
  }
  return out.str();
}

}  // namespace trireme
