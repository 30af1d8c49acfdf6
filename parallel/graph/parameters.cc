#include "parallel/graph/parameters.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "parallel/graph/low_rank.h"

namespace trireme {
namespace {

constexpr char kTensorAxis[] = "tp";
constexpr char kExpertAxis[] = "ep";
constexpr char kExpertTensorAxis[] = "etp";
constexpr char kExpertPlace[] = "{expert}";  // in the names of experts' tensors
const Initial kOnes{Initial::Kind::kOnes};
const Initial kZeros{Initial::Kind::kZeros};

// Collects a layer's parameters; every method is one kind of weight.
class Declarer {
 public:
  Declarer(const LayerGraph& graph, const Layer& layer, const TensorSplit& split)
      : graph_(graph), layer_(layer), split_(split), tensor_(split.size), sequence_(split.sequence) {}

  // Whole on every rank, used between the blocks: where each rank sees only its share of the tokens, it has
  // only a part of the gradient.
  void Norm(const std::string& role, int64_t size) { AddNorm(role, size, sequence_); }

  // Whole on every rank, used inside a block on this rank's heads: always a part of the gradient.
  void HeadNorm(const std::string& role, int64_t size) { AddNorm(role, size, true); }

  // Output rows split over tp, blocks one after the other: each rank makes some of the outputs.
  void Columns(const std::string& role, const std::vector<std::string>& parts, std::vector<Block> blocks,
               int64_t inputs, bool bias) {
    Add(StackedParameter(Declare(role + ".weight", {SplitDim(kTensorAxis, blocks), WholeDim(inputs)}),
                         HfOf(parts, ".weight"), Normal()),
        RolesOf(parts, ".weight"));
    if (!bias) return;
    Add(StackedParameter(Declare(role + ".bias", {SplitDim(kTensorAxis, std::move(blocks))}),
                         HfOf(parts, ".bias"), kZeros),
        RolesOf(parts, ".bias"));
  }

  // Input columns split over tp: each rank's product is a part of the sum, to which the bias is added once.
  void Rows(const std::string& role, int64_t outputs, Block inputs, bool bias) {
    Add(PlainParameter(Declare(role + ".weight", {WholeDim(outputs), SplitDim(kTensorAxis, {inputs})}),
                       Hf(role + ".weight"), Normal()),
        {role + ".weight"});
    if (!bias) return;
    auto declaration = Declare(role + ".bias", {WholeDim(outputs)});
    if (sequence_) declaration.partial_gradient = {kTensorAxis};
    Add(PlainParameter(std::move(declaration), Hf(role + ".bias"), kZeros), {role + ".bias"});
  }

  // Whole on every rank, used on this rank's share of the tokens whatever `sequence` is.
  void OnSharedTokens(const std::string& role, int64_t outputs, int64_t inputs) {
    auto declaration = Declare(role, {WholeDim(outputs), WholeDim(inputs)});
    declaration.partial_gradient = {kTensorAxis};
    Add(PlainParameter(std::move(declaration), Hf(role), Normal()), {role});
  }

  // One matrix an expert, a stack: experts over ep, and over etp the rows of gate and up, the columns of
  // down.
  void ExpertColumns(const std::string& role, const std::vector<std::string>& parts, int64_t experts,
                     int64_t rows, int64_t inputs) {
    const Block block{.size = rows, .parts = split_.expert_tensor};
    auto declaration =
        DeclareExperts(role, experts, SplitDim(kExpertTensorAxis, std::vector<Block>(parts.size(), block)),
                       WholeDim(inputs));
    std::vector<HfTensor> tensors;
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (size_t i = 0; i < parts.size(); ++i) {
        tensors.push_back({HfOfExpert(parts[i], expert),
                           {rows, inputs},
                           {{expert, static_cast<int64_t>(i) * rows, 0}, {1, rows, inputs}}});
      }
    }
    Add({std::move(declaration), std::move(tensors), Normal()}, parts);
  }
  void ExpertRows(const std::string& role, int64_t experts, int64_t outputs, int64_t inputs) {
    const Block block{.size = inputs, .parts = split_.expert_tensor};
    auto declaration = DeclareExperts(role, experts, WholeDim(outputs), SplitDim(kExpertTensorAxis, {block}));
    std::vector<HfTensor> tensors;
    for (int64_t expert = 0; expert < experts; ++expert) {
      tensors.push_back(
          {HfOfExpert(role, expert), {outputs, inputs}, {{expert, 0, 0}, {1, outputs, inputs}}});
    }
    Add({std::move(declaration), std::move(tensors), Normal()}, {role});
  }

  // Whole on every rank, fp32 and without a gradient.
  void Untrained(const std::string& role, int64_t size) {
    auto declaration = Declare(role, {WholeDim(size)});
    declaration.dtype = DType::kFp32;
    list_.push_back(PlainParameter(std::move(declaration), Hf(role), kZeros));
    list_.back().trained = false;
    list_.back().steers = true;
  }

  // Heads that each rank has for itself.
  Block OwnHeads(int64_t heads, int64_t dim) const {
    if (heads % tensor_ != 0) {
      throw InputError(layer_.name, ": ", heads,
                       " attention heads do not divide over parallel.tensor = ", tensor_,
                       "; choose a tensor size that divides ", heads);
    }
    return {.size = heads * dim, .parts = tensor_, .unit = dim};
  }

  void Vocabulary(const std::string& role, int64_t vocabulary, int64_t hidden) {
    const Block rows{.size = vocabulary, .parts = tensor_, .padding = PaddingTo(vocabulary, tensor_)};
    Parameter parameter =
        PlainParameter(Declare(role, {SplitDim(kTensorAxis, {rows}), WholeDim(hidden)}), Hf(role), Normal());
    const auto repeated = layer_.repeated.find(role);
    if (repeated != layer_.repeated.end()) parameter.hf.front().repeated = repeated->second;
    Add(std::move(parameter), {role});
  }

  // Heads of `dim` elements. Fewer heads than ranks: ranks share, if that comes out even.
  Block Heads(const char* what, int64_t heads, int64_t dim) const {
    if (heads % tensor_ != 0 && tensor_ % heads != 0) {
      throw InputError(layer_.name, ": ", heads, " ", what, " do not divide over parallel.tensor = ", tensor_,
                       "; choose a tensor size that divides ", heads, " or is a multiple of it");
    }
    const auto parts = static_cast<int>(std::min<int64_t>(tensor_, heads));
    return {.size = heads * dim, .parts = parts, .unit = dim};
  }

  Block Even(int64_t size) const { return {.size = size, .parts = tensor_}; }

  // The weights, then the low-rank pairs.
  std::vector<Parameter> Take() {
    for (Parameter& pair : pairs_) list_.push_back(std::move(pair));
    return std::move(list_);
  }

 private:
  void AddNorm(const std::string& role, int64_t size, bool partial) {
    auto declaration = Declare(role, {WholeDim(size)});
    if (partial) declaration.partial_gradient = {kTensorAxis};
    Add(PlainParameter(std::move(declaration), Hf(role), kOnes), {role});
  }
  // A weight whose blocks are `roles`, with the low-rank pairs beside it.
  void Add(Parameter parameter, const std::vector<std::string>& roles) {
    parameter.trained = IsTrained(parameter, roles);
    std::vector<LowRank> parts;
    for (const std::string& role : roles) {
      const auto found = layer_.low_rank.find(role.substr(0, role.rfind('.')));
      parts.push_back(found == layer_.low_rank.end() || !role.ends_with(".weight") ? LowRank{}
                                                                                   : found->second);
    }
    list_.push_back(std::move(parameter));
    if (std::all_of(parts.begin(), parts.end(), [](const LowRank& part) { return part.rank == 0; })) return;
    for (Parameter& one : LowRankPairs(list_.back(), parts)) pairs_.push_back(std::move(one));
  }
  // What lies in one piece of memory is trained as one.
  bool IsTrained(const Parameter& parameter, const std::vector<std::string>& roles) const {
    if (!layer_.trained) return true;
    std::vector<std::string> trained, frozen;
    for (const std::string& role : roles) {
      (layer_.trained->contains(role) ? trained : frozen).push_back(Hf(role));
    }
    if (trained.empty() || frozen.empty()) return frozen.empty();
    throw InputError(parameter.declaration.name, ": ", Join(trained), " cannot be trained without ",
                     Join(frozen), ", for they are one matrix; name all of them or none");
  }
  ParameterDeclaration Declare(const std::string& role, std::vector<Dim> dims) const {
    return {.name = layer_.name + "." + role, .dtype = graph_.dtype, .dims = std::move(dims)};
  }
  ParameterDeclaration DeclareExperts(const std::string& role, int64_t experts, Dim outputs,
                                      Dim inputs) const {
    if (experts % split_.expert != 0) {
      throw InputError(layer_.name, ": ", experts,
                       " experts do not divide over parallel.expert = ", split_.expert,
                       "; choose a size that divides ", experts);
    }
    auto declaration = Declare(role, {SplitDim(kExpertAxis, {{.size = experts, .parts = split_.expert}}),
                                      std::move(outputs), std::move(inputs)});
    declaration.grid = GridKind::kExpert;
    return declaration;
  }
  Initial Normal() const { return {Initial::Kind::kNormal, graph_.initial_deviation}; }

  const std::string& Hf(const std::string& role) const {
    const auto found = layer_.hf_names.find(role);
    TRIREME_CHECK(found != layer_.hf_names.end()) << layer_.name << " has no Hugging Face name for " << role;
    return found->second;
  }
  std::string HfOfExpert(const std::string& role, int64_t expert) const {
    std::string name = Hf(role);
    const size_t place = name.find(kExpertPlace);
    TRIREME_CHECK(place != std::string::npos) << name << " has no place for the expert's number";
    return name.replace(place, sizeof(kExpertPlace) - 1, std::to_string(expert));
  }
  static std::vector<std::string> RolesOf(const std::vector<std::string>& parts, const char* kind) {
    std::vector<std::string> roles;
    for (const std::string& part : parts) roles.push_back(part + kind);
    return roles;
  }
  std::vector<std::string> HfOf(const std::vector<std::string>& parts, const char* kind) const {
    std::vector<std::string> names;
    for (const std::string& role : RolesOf(parts, kind)) names.push_back(Hf(role));
    return names;
  }

  const LayerGraph& graph_;
  const Layer& layer_;
  TensorSplit split_;
  int tensor_;
  bool sequence_;
  std::vector<Parameter> list_, pairs_;
};

// The latent vectors are made on every rank; each rank's heads give a part of their gradients.
void LatentAttention(const AttentionSpec& spec, Declarer& declare) {
  const LatentSpec& latent = *spec.latent;
  const Block query = declare.OwnHeads(spec.heads, latent.head_dim());
  if (latent.query_rank == 0) {
    declare.Columns("attention.q", {"attention.q"}, {query}, spec.hidden, false);
  } else {
    declare.OnSharedTokens("attention.q_a.weight", latent.query_rank, spec.hidden);
    declare.HeadNorm("attention.q_a_norm.weight", latent.query_rank);
    declare.Columns("attention.q_b", {"attention.q_b"}, {query}, latent.query_rank, false);
  }
  declare.OnSharedTokens("attention.kv_a.weight", latent.kv_rank + latent.turned_dim, spec.hidden);
  declare.HeadNorm("attention.kv_a_norm.weight", latent.kv_rank);
  declare.Columns("attention.kv_b", {"attention.kv_b"},
                  {declare.OwnHeads(spec.heads, latent.own_dim + latent.value_dim)}, latent.kv_rank, false);
  declare.Rows("attention.output", spec.hidden, declare.OwnHeads(spec.heads, latent.value_dim), false);
}

void Attention(const AttentionSpec& spec, Declarer& declare) {
  if (spec.latent) return LatentAttention(spec, declare);
  const Block query = declare.Heads("attention heads", spec.heads, spec.head_dim);
  const Block key = declare.Heads("key-value heads", spec.kv_heads, spec.head_dim);
  declare.Columns("attention.qkv", {"attention.q", "attention.k", "attention.v"}, {query, key, key},
                  spec.hidden, spec.qkv_bias);
  if (spec.qk_norm) {
    declare.HeadNorm("attention.q_norm.weight", spec.head_dim);
    declare.HeadNorm("attention.k_norm.weight", spec.head_dim);
  }
  declare.Rows("attention.output", spec.hidden, query, spec.output_bias);
}

void Mlp(const std::string& role, const MlpSpec& spec, Declarer& declare) {
  const Block rows = declare.Even(spec.ffn);
  declare.Columns(role + ".gate_up", {role + ".gate", role + ".up"}, {rows, rows}, spec.hidden, spec.bias);
  declare.Rows(role + ".down", spec.hidden, rows, spec.bias);
}

void Experts(const ExpertsSpec& spec, Declarer& declare) {
  const int64_t experts = spec.router.experts;
  declare.OnSharedTokens("router.weight", experts, spec.hidden);
  declare.ExpertColumns("experts.gate_up.weight", {"experts.gate.weight", "experts.up.weight"}, experts,
                        spec.ffn, spec.hidden);
  declare.ExpertRows("experts.down.weight", experts, spec.hidden, spec.ffn);
  if (spec.router.correction_bias) declare.Untrained("router.bias", experts);
  if (spec.shared_ffn > 0) Mlp("shared", {.hidden = spec.hidden, .ffn = spec.shared_ffn}, declare);
  if (spec.shared_gate) declare.OnSharedTokens("shared_gate.weight", 1, spec.hidden);
}

struct DeclareLayer {
  Declarer& declare;

  void operator()(const EmbeddingSpec& spec) const {
    declare.Vocabulary("embedding.weight", spec.vocabulary, spec.hidden);
  }
  void operator()(const DecoderSpec& spec) const {
    declare.Norm("attention_norm.weight", spec.attention.hidden);
    Attention(spec.attention, declare);
    declare.Norm("mlp_norm.weight", spec.attention.hidden);
    if (spec.experts) {
      Experts(*spec.experts, declare);
    } else {
      Mlp("mlp", spec.mlp, declare);
    }
  }
  void operator()(const MtpSpec& spec) const {
    const int64_t hidden = spec.decoder.attention.hidden;
    if (spec.depth == 1) declare.Norm("model_norm.weight", hidden);
    declare.Norm("embedding_norm.weight", hidden);
    declare.Norm("hidden_norm.weight", hidden);
    declare.OnSharedTokens("join.weight", hidden, 2 * hidden);
    (*this)(spec.decoder);
    declare.Norm("norm.weight", hidden);
  }
  void operator()(const HeadSpec& spec) const {
    if (spec.depths == 0) declare.Norm("norm.weight", spec.hidden);
    if (!spec.tied) declare.Vocabulary("logits.weight", spec.vocabulary, spec.hidden);
  }
};

}  // namespace

std::vector<Parameter> ParametersOf(const LayerGraph& graph, const Layer& layer, const TensorSplit& split) {
  Declarer declare(graph, layer, split);
  std::visit(DeclareLayer{declare}, layer.spec);
  return declare.Take();
}

bool HasExperts(const LayerGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    return decoder != nullptr && decoder->experts.has_value();
  });
}

bool HasTiedHead(const LayerGraph& graph) {
  const auto* head = graph.layers.empty() ? nullptr : std::get_if<HeadSpec>(&graph.layers.back().spec);
  return head != nullptr && head->tied;
}

bool UsesEmbeddingAgain(const LayerGraph& graph) {
  const auto* head = graph.layers.empty() ? nullptr : std::get_if<HeadSpec>(&graph.layers.back().spec);
  return head != nullptr && (head->tied || head->depths > 0);
}

}  // namespace trireme
