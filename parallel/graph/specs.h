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
  enum class Scaling { kNone, kLinear, kLlama3, kYarn, kDynamic, kLongrope };
  double theta = 10000.0;
  int64_t rotary_dim = 0;  // elements of a head that are rotated
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  int64_t original_positions = 8192;
  double beta_fast = 32;          // yarn: pairs that rotate more often within the original positions are unchanged,
  double beta_slow = 1;           // those that rotate less often are stretched
  bool truncate = true;           // yarn: the boundaries between them are rounded to whole pairs
  double magnitude = 1;           // yarn, longrope: cosine and sine are multiplied by it
  int64_t longest_positions = 0;  // dynamic, longrope: what config.json says in max_position_embeddings
  std::vector<double> short_factors = {};  // longrope: of each pair, in sequences of at most the original positions,
  std::vector<double> long_factors = {};   // and in longer ones
  std::vector<int64_t> sections = {};      // M-RoPE: pairs that turn by time, by row and by column; empty: one position
  bool sections_interleaved = false;       // M-RoPE: the three take turns
};

// Radians per position, one for each pair of elements: [rotary_dim / 2].
std::vector<double> InverseFrequencies(const RopeSpec& rope);

// M-RoPE: which of the three positions each pair turns by, 0 to 2: [rotary_dim / 2]; empty: there is one.
std::vector<int64_t> RotaryAxes(const RopeSpec& rope);

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

// Gated DeltaNet: each value head keeps a state [key_dim, value_dim] that decays, forgets what it had under a key and
// learns the new value. Queries, keys and values first pass a short causal convolution over the sequence.
struct DeltaSpec {
  int64_t key_heads = 0;    // of queries and keys
  int64_t value_heads = 0;  // a multiple of key_heads
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t convolution = 4;  // tokens that the convolution sees
  bool fused =
      true;  // files hold one matrix for q, k, v and z, and one for b and a (Qwen3-Next), not one each (Qwen3.5)
};

struct AttentionSpec {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool qkv_bias = false;
  bool qkv_by_group = false;  // files hold one matrix: of each key head its query heads, the key and the value
  bool output_bias = false;
  bool qk_norm = false;       // RMSNorm of each query and key head before the rotary embedding
  bool wide_qk_norm = false;  // the same of all query heads together, and of all key heads
  bool late_qk_norm = false;  // of each head, after the rotary embedding
  bool interleaved = false;   // adjacent elements are rotated together; otherwise first half with second half
  double scale = 0;           // of the scores; 0: 1 / sqrt(head_dim)
  int64_t window = 0;         // keys that a query attends to at most, its own among them; 0: any number
  double soft_cap = 0;        // a score s is cap · tanh(s / cap); 0: none
  bool sinks = false;         // each head has a score of its own that takes its part in the softmax and brings no value
  bool output_gate = false;   // what attention gives is multiplied by sigmoid of a projection as wide as the queries
  double norm_eps = 1e-6;
  RopeSpec rope;
  std::optional<LatentSpec> latent = {};  // in place of q, k and v
  std::optional<DeltaSpec> delta = {};    // in place of all of it but hidden, norms and norm_eps
  BlockNorms norms = {};
};

struct MlpSpec {  // down(activation(gate(x)) * up(x))
  enum class Activation { kSilu, kGeluTanh, kClampedSwiglu };
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
  bool bias = false;         // of each expert's matrices
  bool router_bias = false;  // of the router's logits, trained
  MlpSpec::Activation activation = MlpSpec::Activation::kSilu;
  double clamp = 0;  // clamped SwiGLU: limit of gate and up
  double alpha = 1;  // clamped SwiGLU: gate · sigmoid(alpha · gate)
};

inline constexpr int64_t kNoPadding = -1;

struct EmbeddingSpec {
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  double scale = 1;             // of its output
  bool scale_in_dtype = false;  // the scale is rounded to the dtype of the weight
  bool sees = false;  // its input are the vision tower's features, which replace the embeddings of image tokens
  int64_t taps = 0;   // further sets of features for the decoder layers, which follow the tokens in its output
  int64_t padding = kNoPadding;  // looking this token up gives its row no gradient
};

struct DecoderSpec {  // norm, attention, add; norm, mlp or experts, add
  AttentionSpec attention;
  MlpSpec mlp;
  std::optional<ExpertsSpec> experts;  // in place of the mlp
  double norm_eps = 1e-6;
  double branch_scale = 1;  // of what is added to the residual stream
  int64_t taps = 0;  // sets of image features that follow the tokens in its input: the first is added to its output
};

// Of a vision tower, in all its layers. Hidden states are those of patches, of which merge · merge neighbours become a
// token. Every tensor-parallel rank has all patches between the blocks.
struct TowerSpec {
  int64_t hidden = 0;
  int64_t head_dim = 0;
  int64_t merge = 2;
  int64_t window = 0;      // tokens per side of an attention window; 0: every block attends over whole frames
  int64_t table_side = 0;  // of the square table of learned positions, interpolated to each image; 0: none
  // Patches per side of a tile: images are cut into tiles of one size, which count as frames. Each has a class token
  // before its patches and a learned position for each of them; heads do not turn. 0: images have grids of their own.
  int64_t tile = 0;
};

struct PatchSpec {  // pixels of patches to hidden states: a convolution over exactly one patch
  TowerSpec tower;
  std::vector<int64_t> kernel = {};  // channels, frames, rows, columns of a patch
  bool bias = false;

  int64_t inputs() const {
    int64_t product = 1;
    for (const int64_t size : kernel) product *= size;
    return product;
  }
};

struct VisionSpec {  // norm, attention both ways, add; norm, mlp, add
  TowerSpec tower;
  int64_t heads = 0;
  int64_t ffn = 0;
  bool gated = false;       // down(silu(gate(x)) · up(x)); otherwise fc2(gelu(fc1(x))), by the approximation with tanh,
  bool gelu_erf = false;    // or by the error function
  bool layer_norm = false;  // otherwise RMSNorm
  double norm_eps = 1e-6;
  bool qkv_bias = true;
  bool wide_qk_norm = false;  // RMSNorm of all query heads together, and of all key heads
  double scale_start =
      0;  // what is added to the residual stream is multiplied by a vector that starts so; 0: it is not
  bool windowed = false;
  bool tapped = false;  // its output is kept for the decoder layers as well
};

struct MergerSpec {  // norm; neighbours joined, fc2(gelu(fc1(x))): the features of image tokens
  TowerSpec tower;
  int64_t outputs = 0;
  bool layer_norm = false;
  double norm_eps = 1e-6;
  int64_t units = 0;         // of fc1; 0: as many as the joined patches have elements
  bool joins_first = false;  // neighbours are joined before the norm
  int64_t taps = 0;          // further mergers, of tapped blocks: they join before the norm
};

// Multi-token prediction: the hidden state of a position, joined with the embedding of the token `depth`
// positions later, passes through a decoder layer and a norm. The input has one hidden state for each earlier
// depth; the output appends this layer's. The first layer gets the model's hidden state and normalises it.
struct MtpSpec {
  DecoderSpec decoder;
  int64_t depth = 1;
  int64_t padding = kNoPadding;  // of the embedding, whose weight it looks tokens up in
};

struct HeadSpec {  // norm; logits, or a score per token; loss
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  double norm_eps = 1e-6;
  bool tied = false;        // the logits' weight is the embedding's
  int64_t mtp_depths = 0;   // mtp layers before it, whose outputs are already normalised
  double mtp_weight = 0;    // weight of each depth's loss; the next token's has 1
  bool scores = false;      // a value head in place of the logits: `vocabulary` numbers per token, 0: the hidden state
  bool values = false;      // a value head with a bias beside the logits, on the same hidden states
  double logit_scale = 1;   // the logits are multiplied by it
  double soft_cap = 0;      // a logit x is cap · tanh(x / cap); 0: none
  double norm_offset = 0;   // added to the norm's weights
  bool normalised = false;  // the rows of the logits' weight are scaled to length 1 where logits are computed
};

using LayerSpec = std::variant<EmbeddingSpec, DecoderSpec, HeadSpec, MtpSpec, PatchSpec, VisionSpec, MergerSpec>;

// The decoder layer that it is or contains; nullptr: neither.
const DecoderSpec* DecoderOf(const LayerSpec& spec);

// Of a layer of the vision tower; nullptr: it is none.
const TowerSpec* TowerOf(const LayerSpec& spec);

}  // namespace trireme
