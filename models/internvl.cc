// InternVL (2.5, 3, 3.5) in transformers' format: a text model that text_config's model_type names, with plain
// positions, and a vision tower over tiles of one size: class tokens, learned positions, layer scale. The format of
// InternVL's own code (internvl_chat) has other names and is refused in families.cc.
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/plausible.h"
#include "models/seeing.h"

namespace trireme {

LayerGraph Llama(const HfConfig& config);
LayerGraph Qwen2(const HfConfig& config);
LayerGraph Qwen3(const HfConfig& config);
LayerGraph Qwen3Moe(const HfConfig& config);

namespace {

constexpr char kTowerPrefix[] = "vision_tower.", kLanguagePrefix[] = "language_model.";
constexpr double kProjectorNormEps = 1e-5;  // torch's own; no key says it

const LayerNames kTiledPatchNames = {{"patch.weight", "embeddings.patch_embeddings.projection.weight"},
                                     {"patch.bias", "embeddings.patch_embeddings.projection.bias"},
                                     {"class.weight", "embeddings.cls_token"},
                                     {"positions.weight", "embeddings.position_embeddings"}};
const LayerNames kTiledBlockNames = {{"attention_norm.weight", "layernorm_before.weight"},
                                     {"attention_norm.bias", "layernorm_before.bias"},
                                     {"attention.q.weight", "attention.q_proj.weight"},
                                     {"attention.k.weight", "attention.k_proj.weight"},
                                     {"attention.v.weight", "attention.v_proj.weight"},
                                     {"attention.q.bias", "attention.q_proj.bias"},
                                     {"attention.k.bias", "attention.k_proj.bias"},
                                     {"attention.v.bias", "attention.v_proj.bias"},
                                     {"attention.q_norm.weight", "attention.q_norm.weight"},
                                     {"attention.k_norm.weight", "attention.k_norm.weight"},
                                     {"attention.output.weight", "attention.projection_layer.weight"},
                                     {"attention.output.bias", "attention.projection_layer.bias"},
                                     {"attention_scale.weight", "lambda_1"},
                                     {"mlp_norm.weight", "layernorm_after.weight"},
                                     {"mlp_norm.bias", "layernorm_after.bias"},
                                     {"mlp.fc1.weight", "mlp.fc1.weight"},
                                     {"mlp.fc1.bias", "mlp.fc1.bias"},
                                     {"mlp.fc2.weight", "mlp.fc2.weight"},
                                     {"mlp.fc2.bias", "mlp.fc2.bias"},
                                     {"mlp_scale.weight", "lambda_2"}};
const LayerNames kProjectorNames = {{"norm.weight", "layer_norm.weight"}, {"norm.bias", "layer_norm.bias"},
                                    {"fc1.weight", "linear_1.weight"},    {"fc1.bias", "linear_1.bias"},
                                    {"fc2.weight", "linear_2.weight"},    {"fc2.bias", "linear_2.bias"}};

struct TextFamily {
  const char* model_type;
  LayerGraph (*build)(const HfConfig&);
};
constexpr TextFamily kTextFamilies[] = {{"llama", Llama}, {"qwen2", Qwen2}, {"qwen3", Qwen3}, {"qwen3_moe", Qwen3Moe}};

LayerGraph TextGraph(const HfConfig& root) {
  const std::string wanted = root.Within("text_config").Text("model_type");
  const SeeingText text = TextOf(root, TiedBy::kEither, {});
  if (!text.sections.sizes.empty())
    throw InputError(root.source(), ": text_config has mrope_section; InternVL's positions are plain");
  std::vector<std::string> known;
  for (const TextFamily& family : kTextFamilies) {
    known.emplace_back(family.model_type);
    if (wanted != family.model_type) continue;
    LayerGraph graph = family.build(text.config);
    text.config.RefuseUnread();
    return graph;
  }
  throw InputError(root.source(), ": text_config.model_type '", wanted,
                   "' is not supported in InternVL; supported: ", Join(known));
}

// A side in pixels, of a key that holds it once or for both sides.
int64_t SquareSide(const HfConfig& vision, const char* key, int64_t fallback) {
  if (!vision.Has(key) || vision.json().at(key).is_number_integer()) return vision.Size(key, fallback);
  const std::vector<int64_t> sides = vision.Integers(key);
  if (sides.size() == 2 && sides[0] == sides[1] && sides[0] > 0) return sides[0];
  throw InputError(vision.source(), ": ", key, " is ", vision.json().at(key).dump(),
                   "; wanted a square: one side, or two equal ones");
}

// What would change the numbers and is not implemented.
void RefuseOthers(const HfConfig& root, const HfConfig& vision) {
  root.Only("downsample_ratio", 0.5);
  root.Only("projector_hidden_act", "gelu");
  root.Only("vision_feature_layer", -1);
  root.Only("vision_feature_select_strategy", "default");
  vision.Only("hidden_act", "gelu");
  for (const char* key : {"hidden_dropout_prob", "attention_dropout", "projection_dropout", "dropout"})
    vision.Only(key, 0.0);
  vision.Only("use_mask_token", false);
  vision.Only("use_mean_pooling", true);
  vision.Only("use_absolute_position_embeddings", true);
  vision.Unused({"initializer_range", "initializer_factor"});
}

TowerSpec TiledTower(const HfConfig& vision, int64_t heads, int64_t patch) {
  const int64_t image = SquareSide(vision, "image_size", 448);
  TowerSpec tower{.hidden = vision.Size("hidden_size", 1024), .merge = 2, .tile = image / patch};
  tower.head_dim = tower.hidden / heads;
  if (image % (patch * tower.merge) != 0) {
    throw InputError(vision.source(), ": image_size = ", image, " is no multiple of ", tower.merge, " patches of ",
                     patch, " pixels");
  }
  if (tower.hidden % heads != 0 || tower.head_dim % 2 != 0) {
    throw InputError(vision.source(), ": hidden_size = ", tower.hidden, " over num_attention_heads = ", heads,
                     " heads; wanted heads of an even number of elements");
  }
  return tower;
}

bool HasLayerNorms(const HfConfig& vision) {
  const std::string kind = vision.Has("norm_type") ? vision.Text("norm_type") : "layer_norm";
  if (kind == "layer_norm" || kind == "rms_norm") return kind == "layer_norm";
  throw InputError(vision.source(), ": norm_type is '", kind, "'; wanted layer_norm or rms_norm");
}

std::vector<Layer> TiledLayers(const HfConfig& vision, int64_t text_hidden) {
  CheckPlausible(vision);
  const int64_t heads = vision.Size("num_attention_heads", 16), patch = SquareSide(vision, "patch_size", 14);
  const TowerSpec tower = TiledTower(vision, heads, patch);
  const VisionSpec block{.tower = tower,
                         .heads = heads,
                         .ffn = vision.Size("intermediate_size", 4096),
                         .gelu_erf = true,
                         .layer_norm = HasLayerNorms(vision),
                         .norm_eps = vision.Number("layer_norm_eps", 1e-6),
                         .qkv_bias = vision.Flag("attention_bias", false),
                         .wide_qk_norm = vision.Flag("use_qk_norm", false),
                         .scale_start = vision.Number("layer_scale_init_value", 0.1)};
  if (block.scale_start == 0) throw InputError(vision.source(), ": layer_scale_init_value is 0; wanted another number");
  std::vector<Layer> layers = {{"vision.patch",
                                PatchSpec{tower, {vision.Size("num_channels", 3), patch, patch}, /*bias=*/true},
                                TowerNames(kTowerPrefix, kTiledPatchNames)}};
  for (int64_t i = 0; i < vision.Size("num_hidden_layers", 24); ++i) {
    layers.push_back(
        {Concat("vision.", i), block, TowerNames(Concat(kTowerPrefix, "encoder.layer.", i, "."), kTiledBlockNames)});
  }
  layers.push_back({"vision.merger",
                    MergerSpec{.tower = tower,
                               .outputs = text_hidden,
                               .layer_norm = true,
                               .norm_eps = kProjectorNormEps,
                               .units = text_hidden,
                               .joins_first = true},
                    TowerNames("multi_modal_projector.", kProjectorNames)});
  return layers;
}

}  // namespace

LayerGraph InternVL(const HfConfig& config) {
  config.Size("image_token_id");
  const HfConfig vision = config.Within("vision_config");
  RefuseOthers(config, vision);
  LayerGraph graph = TextGraph(config);
  for (const char* start : {"model.", "lm_head."}) MoveNames(graph, start, Concat(kLanguagePrefix, start));
  AddTower(graph, TiledLayers(vision, HiddenOf(graph)), 0, config);
  const int64_t tokens = graph.images->tile * graph.images->tile / (graph.images->merge * graph.images->merge);
  if (config.Size("image_seq_length", tokens) != tokens) {
    throw InputError(config.source(), ": image_seq_length is ", config.Size("image_seq_length"),
                     "; a tile of vision_config.image_size has ", tokens, " tokens");
  }
  vision.RefuseUnread();
  return graph;
}

}  // namespace trireme
