// What families that see share: a text model's config inside the whole one's, positions in three dimensions, and a
// vision tower before the embedding. Which keys a tower has is up to the family.
#pragma once

#include <string>
#include <vector>

#include "models/decoder.h"

namespace trireme {

// How M-RoPE's pairs are dealt to time, row and column.
struct RopeSections {
  std::vector<int64_t> sizes = {};
  bool interleaved = false;

  // Into the specification of a layer; refuses sizes that do not add up to the layer's pairs.
  void Apply(RopeSpec& rope, const std::string& source) const;
};

// Which of the two configs decides whether the embeddings are tied.
enum class TiedBy { kRoot, kEither };

// The text model's config: text_config, or in older files the root itself. Its model_type and dtype are the root's, and
// the keys of M-RoPE are taken out of it.
struct SeeingText {
  HfConfig config;
  RopeSections sections;
};
SeeingText TextOf(const HfConfig& root, TiedBy tied, const RopeSections& otherwise);

// Sizes that towers of Qwen's families share, and their layers so far.
struct SeeingTower {
  TowerSpec tower;
  int64_t depth = 0, heads = 0, ffn = 0, outputs = 0;
  std::vector<int64_t> kernel = {};
};
SeeingTower ReadTower(const HfConfig& vision, int64_t text_hidden);

// Puts the tower before the graph's embedding, whose decoder layers take `taps` further sets of features.
void AddTower(LayerGraph& graph, std::vector<Layer> tower, int64_t taps, const HfConfig& root);

// Names of a layer: for each role of `names` the prefix and its name.
HfNames TowerNames(const std::string& prefix, const LayerNames& names);
// The same of a tower's layer: attention and the weights of its norms, which all of them name alike, and its own.
HfNames TowerLayerNames(const std::string& prefix, const LayerNames& own);

// Replaces the beginning of all names in files.
void MoveNames(LayerGraph& graph, const std::string& from, const std::string& to);

}  // namespace trireme
