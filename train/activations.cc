#include "train/activations.h"

#include <algorithm>
#include <variant>

namespace trireme {
namespace {

constexpr int64_t kFp32Bytes = 4;
// As the cross-entropy of the head cuts them.
constexpr int64_t kLogitBytesAtATime = int64_t{64} << 20;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tokens between tensor-parallel blocks.
int64_t TokensBetween(const ActivationShape& shape) {
  return shape.sequence ? DivideUp(shape.tokens, shape.tensor) : shape.tokens;
}

// Fewer heads than ranks: neighbours share one.
int64_t HeadsHere(int64_t heads, const ActivationShape& shape) {
  return heads / std::min(heads, shape.tensor);
}

struct DecoderElements {
  int64_t input, residual;  // what enters the layer, and the sum after attention
  int64_t norms;            // of both, as the products see them: of all tokens
  int64_t heads;            // queries, keys and values as projected, and once more turned
  int64_t attended, gate_up, activated;
  int64_t rows = 0;  // tokens as the experts get them

  DecoderElements(const DecoderSpec& spec, const ActivationShape& shape) {
    const AttentionSpec& attention = spec.attention;
    input = residual = attention.hidden * TokensBetween(shape);
    norms = 2 * attention.hidden * shape.tokens;
    SetAttention(attention, shape);
    activated = (spec.experts ? spec.experts->shared_ffn : spec.mlp.ffn) / shape.tensor * shape.tokens;
    if (spec.experts) AddExperts(*spec.experts, shape);
    gate_up = 2 * activated;
  }

  void SetAttention(const AttentionSpec& attention, const ActivationShape& shape) {
    if (attention.latent) return SetLatent(*attention.latent, attention.heads / shape.tensor, shape.tokens);
    const int64_t queries = HeadsHere(attention.heads, shape) * attention.head_dim;
    const int64_t keys = HeadsHere(attention.kv_heads, shape) * attention.head_dim;
    heads = 2 * (queries + 2 * keys) * shape.tokens;
    attended = queries * shape.tokens;
  }

  // The latent vectors before and behind their norms; queries, keys and values as attention reads them.
  void SetLatent(const LatentSpec& latent, int64_t heads_here, int64_t tokens) {
    const int64_t latents = 2 * (latent.query_rank + latent.kv_rank) + latent.turned_dim;
    heads = (latents + heads_here * (2 * latent.head_dim() + latent.value_dim)) * tokens;
    attended = heads_here * latent.value_dim * tokens;
  }

  // A token's rows go to every rank that shares the matrices, which has its part of the hidden units.
  void AddExperts(const ExpertsSpec& experts, const ActivationShape& shape) {
    const int64_t choices = experts.router.top_k * TokensBetween(shape);
    rows = experts.hidden * choices * shape.expert_tensor;
    activated += experts.ffn * choices;
    if (experts.shared_ffn == 0) norms += experts.hidden * (TokensBetween(shape) - shape.tokens);
  }

  int64_t Whole() const { return input + residual + norms + heads + attended + gate_up + activated + rows; }
  int64_t Kept(Recompute recompute) const {
    if (recompute == RECOMPUTE_FULL) return input;
    return Whole() - (recompute == RECOMPUTE_SELECTIVE ? norms + attended + activated : 0);
  }
};

// What a layer of multi-token prediction keeps beside its decoder layer: the hidden states that come in, and
// unless it runs again the model's normalised one, the embeddings, both norms side by side, and what its last
// norm reads.
int64_t MtpElements(const MtpSpec& spec, Recompute recompute, const ActivationShape& shape) {
  const int64_t states = spec.decoder.attention.hidden * TokensBetween(shape);
  if (recompute == RECOMPUTE_FULL) return spec.depth * states - DecoderElements(spec.decoder, shape).input;
  return (spec.depth + (spec.depth == 1 ? 1 : 0) + 4) * states;
}

}  // namespace

int64_t KeptActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape) {
  int64_t elements = 0;
  if (const auto* further = std::get_if<MtpSpec>(&layer.spec)) {
    elements =
        MtpElements(*further, recompute, shape) + DecoderElements(further->decoder, shape).Kept(recompute);
  } else if (const auto* decoder = std::get_if<DecoderSpec>(&layer.spec)) {
    elements = DecoderElements(*decoder, shape).Kept(recompute);
  } else if (const auto* head = std::get_if<HeadSpec>(&layer.spec)) {
    const int64_t each = head->hidden * (TokensBetween(shape) + shape.tokens);  // its input, and the gradient
    elements = (1 + head->depths) * each;
  }
  return elements * shape.element_bytes;
}

int64_t RemadeActivationBytes(const Layer& layer, Recompute recompute, const ActivationShape& shape) {
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  if (decoder == nullptr) return 0;
  const DecoderElements elements(*decoder, shape);
  return (elements.Whole() - elements.Kept(recompute)) * shape.element_bytes;
}

int64_t LogitsBytes(const Layer& layer, const ActivationShape& shape) {
  const auto* head = std::get_if<HeadSpec>(&layer.spec);
  if (head == nullptr) return 0;
  const int64_t vocabulary = DivideUp(head->vocabulary, shape.tensor);
  const int64_t token_bytes = vocabulary * shape.element_bytes;
  return token_bytes * std::min(shape.tokens, std::max<int64_t>(kLogitBytesAtATime / token_bytes, 1));
}

}  // namespace trireme
