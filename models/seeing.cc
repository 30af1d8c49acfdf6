#include "models/seeing.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "models/plausible.h"

namespace trireme {
namespace {

// Keys of the root that are not the text model's.
constexpr const char* kRootKeys[] = {"text_config",           "vision_config",       "image_token_id", "video_token_id",
                                     "vision_start_token_id", "vision_end_token_id", "vision_token_id"};

// Older files have the text model's keys beside the tower's, some later ones have them twice.
Json TextKeys(const HfConfig& root) {
  Json text = root.Has("text_config") ? root.Within("text_config").json() : root.json();
  for (const char* key : kRootKeys) {
    root.Has(key);
    text.erase(key);
  }
  const bool nested = root.Has("text_config");
  for (const auto& [key, value] : root.json().items()) {
    if (text.contains(key) && (!nested || text.at(key) == value)) root.Has(key.c_str());
  }
  return text;
}

// The object with the rotary embedding's keys: the type "mrope" means the default one.
RopeSections TakeSections(Json& text, const RopeSections& otherwise, const std::string& source) {
  RopeSections sections = otherwise;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!text.contains(key) || !text.at(key).is_object()) continue;
    Json& rope = text.at(key);
    const HfConfig read(rope, source + ": " + key);
    if (read.Has("mrope_section")) sections.sizes = read.Integers("mrope_section");
    read.Only("mrope_interleaved", otherwise.interleaved);
    rope.erase("mrope_section");
    rope.erase("mrope_interleaved");
    for (const char* type : {"type", "rope_type"}) {
      if (rope.contains(type) && rope.at(type) == "mrope") rope[type] = "default";
    }
  }
  return sections;
}

}  // namespace

void RopeSections::Apply(RopeSpec& rope, const std::string& source) const {
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const bool positive = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
  if (sizes.size() != 3 || !positive || sum != rope.rotary_dim / 2) {
    throw InputError(source, ": mrope_section has ", sizes.size(), " sizes that add up to ", sum, "; wanted 3 for the ",
                     rope.rotary_dim / 2, " pairs of a head");
  }
  rope.sections = sizes;
  rope.sections_interleaved = interleaved;
}

SeeingText TextOf(const HfConfig& root, TiedBy tied, const RopeSections& otherwise) {
  Json text = TextKeys(root);
  const RopeSections sections = TakeSections(text, otherwise, root.source());
  const bool of_text = tied == TiedBy::kEither && text.value("tie_word_embeddings", Json()) == true;
  text["tie_word_embeddings"] = root.Flag("tie_word_embeddings", false) || of_text;
  text["model_type"] = root.Text("model_type");
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (root.Has(key)) text[key] = root.json().at(key);
  }
  HfConfig config(std::move(text), root.source());
  CheckPlausible(config);
  return {std::move(config), sections};
}

SeeingTower ReadTower(const HfConfig& vision, int64_t text_hidden) {
  CheckPlausible(vision);
  SeeingTower read;
  read.depth = vision.Size("depth");
  read.heads = vision.Size("num_heads");
  read.ffn = vision.Size("intermediate_size");
  read.outputs = vision.Size("out_hidden_size");
  read.tower = {.hidden = vision.Size("hidden_size"), .merge = vision.Size("spatial_merge_size", 2)};
  read.tower.head_dim = read.tower.hidden / read.heads;
  const int64_t patch = vision.Size("patch_size");
  read.kernel = {vision.Size("in_channels", 3), vision.Size("temporal_patch_size", 2), patch, patch};
  // Names of older versions for some of the above, videos, and initial weights of a model without files.
  vision.Unused({"in_chans", "spatial_patch_size", "tokens_per_second", "initializer_range"});
  if (vision.Has("rope_parameters")) {
    const HfConfig rope = vision.Within("rope_parameters");
    rope.Only("rope_type", "axial");
    rope.Only("rope_theta", 10000.0);
    rope.RefuseUnread();
  }
  if (read.tower.hidden % read.heads != 0 || read.tower.head_dim % 4 != 0) {
    throw InputError(vision.source(), ": hidden_size = ", read.tower.hidden, " over num_heads = ", read.heads,
                     " heads; wanted heads of a multiple of 4 elements");
  }
  if (read.outputs != text_hidden) {
    throw InputError(vision.source(), ": out_hidden_size is ", read.outputs, "; the text model's hidden_size is ",
                     text_hidden);
  }
  return read;
}

void AddTower(LayerGraph& graph, std::vector<Layer> tower, int64_t taps, const HfConfig& root) {
  if (taps > DecodersIn(graph)) {
    throw InputError(root.source(), ": deepstack_visual_indexes names ", taps, " layers; the text model has ",
                     DecodersIn(graph), " that can take their features");
  }
  const auto& patch = std::get<PatchSpec>(tower.front().spec);
  const int64_t placeholder = root.Size("image_token_id");
  if (placeholder >= VocabularyOf(graph)) {
    throw InputError(root.source(), ": image_token_id is ", placeholder, "; the vocabulary has ", VocabularyOf(graph),
                     " tokens");
  }
  graph.images = ImageInputs{
      .placeholder = placeholder, .merge = patch.tower.merge, .elements = patch.inputs(), .tile = patch.tower.tile};
  auto& embedding = std::get<EmbeddingSpec>(graph.layers.front().spec);
  embedding.sees = true;
  embedding.taps = taps;
  for (int64_t i = 0; i < taps; ++i) {
    std::get<DecoderSpec>(graph.layers[static_cast<size_t>(1 + i)].spec).taps = taps - i;
  }
  graph.layers.insert(graph.layers.begin(), std::make_move_iterator(tower.begin()),
                      std::make_move_iterator(tower.end()));
}

namespace {

// What the layers of all these towers have.
const LayerNames& TowerAttentionNames() {
  static const LayerNames names = {
      {"attention_norm.weight", "norm1.weight"},   {"attention.q.weight", "attn.qkv.weight"},
      {"attention.k.weight", "attn.qkv.weight"},   {"attention.v.weight", "attn.qkv.weight"},
      {"attention.q.bias", "attn.qkv.bias"},       {"attention.k.bias", "attn.qkv.bias"},
      {"attention.v.bias", "attn.qkv.bias"},       {"attention.output.weight", "attn.proj.weight"},
      {"attention.output.bias", "attn.proj.bias"}, {"mlp_norm.weight", "norm2.weight"}};
  return names;
}

}  // namespace

HfNames TowerNames(const std::string& prefix, const LayerNames& names) {
  HfNames all;
  for (const auto& [role, name] : names) all[role] = prefix + name;
  return all;
}

HfNames TowerLayerNames(const std::string& prefix, const LayerNames& own) {
  HfNames all = TowerNames(prefix, TowerAttentionNames());
  all.merge(TowerNames(prefix, own));
  return all;
}

void MoveNames(LayerGraph& graph, const std::string& from, const std::string& to) {
  for (Layer& layer : graph.layers) {
    for (auto& [role, name] : layer.hf_names) {
      if (name.starts_with(from)) name = to + name.substr(from.size());
    }
  }
}

}  // namespace trireme
