// What a layer of a transformer is, as plain values: sizes, norms, rotary embedding, activation. No tensor,
// no rank, no Hugging Face key: models/ fills these from a config, parallel/ turns them into parameters and
// work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ops/router_rule.h"

namespace trireme {

// The label of a token whose prediction is not trained, as in Hugging Face.
inline constexpr int64_t kNotTrained = -100;

struct RopeSpec {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  double theta = 10000.0;
  int64_t rotary_dim = 0;  // how many of a head's elements are turned
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  int64_t original_positions = 8192;
  double beta_fast =
      32;                // yarn: pairs that turn more often than this within the original positions are kept,
  double beta_slow = 1;  // those that turn less are stretched
  bool truncate = true;  // yarn: the borders between them are whole pairs
  double magnitude = 1;  // yarn: cosine and sine are multiplied by it
};

// Radians a position, one for each pair of elements: [rotary_dim / 2].
std::vector<double> InverseFrequencies(const RopeSpec& rope);

// Queries, keys and values by way of small latent vectors; a key has a part of its own for each head and a
// turned part that all heads share. Head sizes: keys and queries own + turned, values their own.
struct LatentSpec {
  int64_t query_rank = 0;  // 0: queries come from the hidden state itself
  int64_t kv_rank = 0;
  int64_t own_dim = 0;
  int64_t turned_dim = 0;
  int64_t value_dim = 0;
  double norm_eps = 1e-6;   // of the latent vectors
  bool interleaved = true;  // neighbours are turned together; otherwise first half with second half
  double scale = 1;         // of the scores

  int64_t head_dim() const { return own_dim + turned_dim; }
};

struct AttentionSpec {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;  // RMSNorm of each query and key head before the rotary embedding
  double norm_eps = 1e-6;
  RopeSpec rope;
  std::optional<LatentSpec> latent = {};  // in place of q, k and v
};

struct MlpSpec {  // down(silu(gate(x)) * up(x))
  int64_t hidden = 0;
  int64_t ffn = 0;
  bool bias = false;
};

struct ExpertsSpec {  // a router sends each token through top_k of many mlps
  RouterRule router;
  int64_t hidden = 0;
  int64_t ffn = 0;           // of each expert
  int64_t shared_ffn = 0;    // of an mlp that takes every token beside them; 0: none
  bool shared_gate = false;  // its output is scaled by the sigmoid of a product with the token
};

struct EmbeddingSpec {
  int64_t vocabulary = 0;
  int64_t hidden = 0;
};

struct DecoderSpec {  // norm, attention, add; norm, mlp or experts, add
  AttentionSpec attention;
  MlpSpec mlp;
  std::optional<ExpertsSpec> experts;  // in place of the mlp
  double norm_eps = 1e-6;
};

// Multi-token prediction: what was computed for a place so far, joined with the embedding of the token that
// stands `depth` behind it, passes a decoder layer and a norm. Takes one hidden state of each depth before it
// and gives its own behind them; the first one gets the model's, and normalises it.
struct MtpSpec {
  DecoderSpec decoder;
  int64_t depth = 1;
};

struct HeadSpec {  // norm, logits, loss
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  double norm_eps = 1e-6;
  bool tied = false;        // the logits' weight is the embedding's
  int64_t depths = 0;       // layers of multi-token prediction before it, whose outputs need no norm
  double depth_weight = 0;  // of each one's loss, beside 1 for the next token's
};

using LayerSpec = std::variant<EmbeddingSpec, DecoderSpec, HeadSpec, MtpSpec>;

// The decoder layer that it is or has; nullptr: neither.
const DecoderSpec* DecoderOf(const LayerSpec& spec);

}  // namespace trireme
