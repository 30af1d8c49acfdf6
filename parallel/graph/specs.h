// What a layer of a transformer is, as plain values: sizes, norms, rotary embedding, activation. No tensor,
// no rank, no Hugging Face key: models/ fills these from a config, parallel/ turns them into parameters and
// layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ops/router/router_rule.h"

namespace trireme {

// The label of a token that is not trained, as in Hugging Face.
inline constexpr int64_t kNotTrained = -100;

struct RopeSpec {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  double theta = 10000.0;
  int64_t rotary_dim = 0;  // elements of a head that are rotated
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  int64_t original_positions = 8192;
  double beta_fast =
      32;                // yarn: pairs that rotate more often within the original positions are unchanged,
  double beta_slow = 1;  // those that rotate less often are stretched
  bool truncate = true;  // yarn: the boundaries between them are rounded to whole pairs
  double magnitude = 1;  // yarn: cosine and sine are multiplied by it
};

// Radians per position, one for each pair of elements: [rotary_dim / 2].
std::vector<double> InverseFrequencies(const RopeSpec& rope);

// Queries, keys and values by way of small latent vectors; a key has a nope part of its own per head and a
// rope part that all heads share. Head sizes: queries and keys nope + rope, values their own.
struct LatentSpec {
  int64_t query_rank = 0;  // 0: queries are projected from the hidden state
  int64_t kv_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t value_dim = 0;
  double norm_eps = 1e-6;   // of the latent vectors
  bool interleaved = true;  // adjacent elements are rotated together; otherwise first half with second half
  double scale = 1;         // of the attention scores

  int64_t head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// Where a block normalises: what it reads, and what it adds to the residual stream.
struct BlockNorms {
  bool input = true;
  bool output = false;
  double offset = 0;  // added to the weights of all norms of the block
};

struct AttentionSpec {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;  // RMSNorm of each query and key head before the rotary embedding
  bool wide_qk_norm = false;  // the same of all query heads together, and of all key heads
  bool late_qk_norm = false;  // of each head, after the rotary embedding
  bool interleaved = false;   // adjacent elements are rotated together; otherwise first half with second half
  double scale = 0;      // of the scores; 0: 1 / sqrt(head_dim)
  int64_t window = 0;    // keys that a query attends to at most, its own among them; 0: any number
  double soft_cap = 0;   // a score s is cap · tanh(s / cap); 0: none
  double norm_eps = 1e-6;
  RopeSpec rope;
  std::optional<LatentSpec> latent = {};  // in place of q, k and v
  BlockNorms norms = {};
};

struct MlpSpec {  // down(activation(gate(x)) * up(x))
  enum class Activation { kSilu, kGeluTanh };
  int64_t hidden = 0;
  int64_t ffn = 0;
  bool bias = false;
  BlockNorms norms = {};
  Activation activation = Activation::kSilu;
};

struct ExpertsSpec {  // a router sends each token through top_k of many mlps
  RouterRule router;
  int64_t hidden = 0;
  int64_t ffn = 0;           // of each expert
  int64_t shared_ffn = 0;    // of a shared mlp that processes every token; 0: none
  bool shared_gate = false;  // its output is scaled by sigmoid(gate · token)
  bool bias_in_row = false;  // files hold the router's correction bias as [1, experts]
};

struct EmbeddingSpec {
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  double scale = 1;              // of its output
  bool scale_in_dtype = false;  // the scale is rounded to the dtype of the weight
};

struct DecoderSpec {  // norm, attention, add; norm, mlp or experts, add
  AttentionSpec attention;
  MlpSpec mlp;
  std::optional<ExpertsSpec> experts;  // in place of the mlp
  double norm_eps = 1e-6;
  double branch_scale = 1;  // of what is added to the residual stream
};

// Multi-token prediction: the hidden state of a position, joined with the embedding of the token `depth`
// positions later, passes through a decoder layer and a norm. The input has one hidden state for each earlier
// depth; the output appends this layer's. The first layer gets the model's hidden state and normalises it.
struct MtpSpec {
  DecoderSpec decoder;
  int64_t depth = 1;
};

struct HeadSpec {  // norm; logits, or a score per token; loss
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  double norm_eps = 1e-6;
  bool tied = false;        // the logits' weight is the embedding's
  int64_t mtp_depths = 0;   // mtp layers before it, whose outputs are already normalised
  double mtp_weight = 0;    // weight of each depth's loss; the next token's has 1
  bool scores = false;      // a value head in place of the logits: one number per token
  bool values = false;      // a value head with a bias beside the logits, on the same hidden states
  double logit_scale = 1;   // the logits are multiplied by it
  double soft_cap = 0;      // a logit x is cap · tanh(x / cap); 0: none
  double norm_offset = 0;   // added to the norm's weights
};

using LayerSpec = std::variant<EmbeddingSpec, DecoderSpec, HeadSpec, MtpSpec>;

// The decoder layer that it is or contains; nullptr: neither.
const DecoderSpec* DecoderOf(const LayerSpec& spec);

}  // namespace trireme
