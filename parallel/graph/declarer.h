// Declarer: collects a layer's parameters; every method is one kind of weight, with its split, its names in
// files and its initial values. The blocks (blocks/) say which weights they have; parameters.h hands out the
// list.
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

  // Whole on every rank, used between the blocks: where each rank sees only its share of the tokens, it has
  // only a part of the gradient.
  void Norm(const std::string& role, int64_t size) { AddNorm(role, size, sequence_); }

  // Whole on every rank, used inside a block on this rank's heads: always a part of the gradient.
  void HeadNorm(const std::string& role, int64_t size) { AddNorm(role, size, true); }

  // Output rows split over tp, blocks one after the other: each rank makes some of the outputs.
  void Columns(const std::string& role, const std::vector<std::string>& parts, std::vector<Block> blocks,
               int64_t inputs, bool bias);

  // Input columns split over tp: each rank's product is a part of the sum, to which the bias is added once.
  void Rows(const std::string& role, int64_t outputs, Block inputs, bool bias);

  // Whole on every rank, used on this rank's share of the tokens whatever `sequence` is.
  void OnSharedTokens(const std::string& role, int64_t outputs, int64_t inputs);

  // One matrix an expert, a stack: experts over ep, and over etp the rows of gate and up, the columns of
  // down.
  void ExpertColumns(const std::string& role, const std::vector<std::string>& parts, int64_t experts,
                     int64_t rows, int64_t inputs);
  void ExpertRows(const std::string& role, int64_t experts, int64_t outputs, int64_t inputs);

  // Whole on every rank, fp32 and without a gradient.
  void Untrained(const std::string& role, int64_t size);

  // Rows of the vocabulary split over tp, padded to equal parts.
  void Vocabulary(const std::string& role, int64_t vocabulary, int64_t hidden);

  // Heads of `dim` elements that each rank has for itself.
  Block OwnHeads(int64_t heads, int64_t dim) const;
  // Fewer heads than ranks: ranks share, if that comes out even.
  Block Heads(const char* what, int64_t heads, int64_t dim) const;
  Block Even(int64_t size) const { return {.size = size, .parts = tensor_}; }

  // The weights, then the low-rank pairs.
  std::vector<Parameter> Take();

 private:
  void AddNorm(const std::string& role, int64_t size, bool partial);
  // A weight whose blocks are `roles`, with the low-rank pairs beside it.
  void Add(Parameter parameter, const std::vector<std::string>& roles);
  // What lies in one piece of memory is trained as one.
  bool IsTrained(const Parameter& parameter, const std::vector<std::string>& roles) const;
  ParameterDeclaration Declare(const std::string& role, std::vector<Dim> dims) const;
  ParameterDeclaration DeclareExperts(const std::string& role, int64_t experts, Dim outputs,
                                      Dim inputs) const;
  Initial Normal() const { return {Initial::Kind::kNormal, graph_.initial_deviation}; }
  const std::string& Hf(const std::string& role) const;
  std::string HfOfExpert(const std::string& role, int64_t expert) const;
  std::vector<std::string> HfOf(const std::vector<std::string>& parts, const char* kind) const;

  const LayerGraph& graph_;
  const Layer& layer_;
  TensorSplit split_;
  int tensor_;
  bool sequence_;
  std::vector<Parameter> list_, pairs_;
};

}  // namespace trireme
