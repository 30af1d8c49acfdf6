// Declarer: collects a layer's parameters. Each method is one kind of weight, with its split, its names in
// files and its initial weights. The blocks (blocks/) declare their weights; parameters.h returns the list.
#pragma once

#include <string>
#include <vector>

#include "core/plan/parameter.h"
#include "parallel/graph/graph.h"
#include "parallel/graph/parameters.h"

namespace trireme {

class Declarer {
 public:
  Declarer(const LayerGraph& graph, const Layer& layer, const TensorSplit& split)
      : graph_(graph), layer_(layer), split_(split), tensor_(split.size), sequence_(split.sequence) {}

  // Replicated on every rank, used between the blocks: if each rank sees only its share of the tokens, it
  // computes only a part of the gradient.
  void Norm(const std::string& role, int64_t size, double offset = 0) { AddNorm(role, size, sequence_, offset); }

  // Replicated on every rank, used inside a block on this rank's heads: always a partial gradient.
  void HeadNorm(const std::string& role, int64_t size, double offset = 0) { AddNorm(role, size, true, offset); }

  // Split over tp like the outputs that it normalises.
  void SplitNorm(const std::string& role, Block block);

  // One number per head, split over tp with the heads.
  void PerHead(const std::string& role, int64_t heads, const Initial& initial);

  // A convolution over the sequence, [channels, 1, taps]: channels split over tp, blocks in order, one tensor in files.
  void Convolution(const std::string& role, std::vector<Block> blocks, int64_t taps);

  // From here on every rank has all tokens between the blocks, whatever the layout says elsewhere: a vision tower.
  void HoldAllTokens() { sequence_ = false; }

  // RMSNorm, or LayerNorm, which has a bias: `role`.weight and `role`.bias.
  void AnyNorm(const std::string& role, int64_t size, bool layer_norm);

  // Replicated on every rank, used on all tokens, in the shape that files have; zero: a bias.
  void Whole(const std::string& role, const Shape& shape, bool zero = false);
  // The same of one number for each element, all of which start alike: layer scale.
  void Scale(const std::string& role, int64_t size, double start);

  // Output rows split over tp, blocks in order: each rank computes some of the outputs.
  void Columns(const std::string& role, const std::vector<std::string>& parts, std::vector<Block> blocks,
               int64_t inputs, bool bias);

  // One number per head, split over tp like the heads, of which a block has one element each.
  void PerHead(const std::string& role, Block heads);

  // Input columns split over tp: each rank computes a partial sum, to which the bias is added once.
  void Rows(const std::string& role, int64_t outputs, Block inputs, bool bias);

  // Replicated on every rank, used on this rank's share of the tokens regardless of `sequence`.
  void OnSharedTokens(const std::string& role, int64_t outputs, int64_t inputs);

  // A bias of such outputs.
  void BiasOnSharedTokens(const std::string& role, int64_t size);

  // Replicated on every rank, used on all tokens: every rank computes the same gradient.
  void OnAllTokens(const std::string& role, int64_t outputs, int64_t inputs);
  // The same of one output, with a bias.
  void ValueHead(const std::string& role, int64_t inputs);

  // One matrix per expert, stacked: experts are split over ep, and over etp the rows of gate and up and the
  // columns of down. Where the name in files has no place for an expert's number, files stack them, too, each
  // transposed.
  void ExpertColumns(const std::string& role, const std::vector<std::string>& parts, int64_t experts, int64_t rows,
                     int64_t inputs);
  void ExpertRows(const std::string& role, int64_t experts, int64_t outputs, int64_t inputs);

  // The same where files hold one tensor for all experts, [experts, inputs, outputs]; rows of gate and up alternate.
  void StackedExpertColumns(const std::string& role, int64_t experts, int64_t rows, int64_t inputs, bool bias);
  // Each rank of etp computes a partial sum, to which one of them adds the bias: every rank computes its gradient.
  void StackedExpertRows(const std::string& role, int64_t experts, int64_t outputs, int64_t inputs, bool bias);

  // Replicated on every rank, fp32, without a gradient. in_row: files hold it as [1, size].
  void Untrained(const std::string& role, int64_t size, bool in_row = false);

  // Rows of the vocabulary split over tp, padded to equal parts.
  void Vocabulary(const std::string& role, int64_t vocabulary, int64_t hidden);

  // Heads of `dim` elements, none shared between ranks.
  Block OwnHeads(int64_t heads, int64_t dim) const;
  // With fewer heads than ranks, ranks share heads; the number of ranks must be a multiple of the heads.
  Block Heads(const char* what, int64_t heads, int64_t dim) const;
  Block Even(int64_t size) const { return {.size = size, .parts = tensor_}; }

  // The weights, then the LoRA adapters.
  std::vector<Parameter> Take();

 private:
  // Starts as the identity: with 1, or with 0 where the layer adds 1.
  void AddNorm(const std::string& role, int64_t size, bool partial, double offset);
  // A weight whose blocks are `roles`, and its LoRA adapters.
  void Add(Parameter parameter, const std::vector<std::string>& roles);
  // Roles fused into one parameter are trained together or not at all.
  bool IsTrained(const Parameter& parameter, const std::vector<std::string>& roles) const;
  // Roles fused into one parameter are packed, or cast, together or not at all.
  bool AreListed(const std::set<std::string>& projections, const Parameter& parameter,
                 const std::vector<std::string>& roles) const;
  ParameterDeclaration Declare(const std::string& role, std::vector<Dim> dims) const;
  ParameterDeclaration DeclareExperts(const std::string& role, int64_t experts, std::vector<Dim> of_each) const;
  void AddExpertStack(const std::string& role, int64_t experts, Dim outputs, Dim inputs, bool bias);
  Initial Normal() const { return {Initial::Kind::kNormal, graph_.initial_deviation}; }
  const std::string& Hf(const std::string& role) const;
  std::string HfOfExpert(const std::string& role, int64_t expert) const;
  bool AreStacked(const std::string& role) const;  // whether files hold all experts in one tensor
  std::vector<std::string> HfOf(const std::vector<std::string>& parts, const char* kind) const;

  const LayerGraph& graph_;
  const Layer& layer_;
  TensorSplit split_;
  int tensor_;
  bool sequence_;
  std::vector<Parameter> list_, adapters_;
};

}  // namespace trireme
