#include "parallel/graph/tuning.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <regex>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/text.h"
#include "parallel/graph/parameters.h"

namespace trireme {
namespace {

constexpr std::string_view kExpertPlace = "{expert}";
constexpr std::string_view kDecay = "delta.decay.log_rate";  // a module of Gated DeltaNet's own vectors
constexpr std::string_view kModelNorm = "model_norm";        // the head's norm, in whichever layer it is

std::string WithoutLast(const std::string& name) { return name.substr(0, name.rfind('.')); }

std::string LastWord(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string OfExpert(std::string name, int64_t expert) {
  const size_t place = name.find(kExpertPlace);
  return place == std::string::npos ? name : name.replace(place, kExpertPlace.size(), std::to_string(expert));
}

// A module as files name it: a projection, a norm, the embedding. A layer's experts count as one module.
struct Module {
  size_t layer = 0;
  std::string role;      // "attention.q"
  std::string name;      // "model.layers.0.self_attn.q_proj"; with a placeholder for experts
  bool linear = false;   // can have a LoRA adapter
  bool in_block = true;  // part of attention, mlp or experts; not a router or gate
  ModelPart part = ModelPart::kLanguage;
  bool bare = false;    // a tensor of a larger module, without ".weight": sinks, experts that files stack
  int64_t experts = 0;  // 0: not an expert

  // Whether the name is `wanted` or ends with "." and `wanted`.
  bool Is(const std::string& wanted) const {
    const std::string own = OfExpert(name, 0);
    return own == wanted || own.ends_with("." + wanted);
  }
};

int64_t ExpertsOf(const Layer& layer, const std::string& name) {
  if (name.find(kExpertPlace) == std::string::npos) return 0;
  return DecoderOf(layer.spec)->experts->router.experts;
}

// The modules of one layer, each once; hf_names also has names that the layer does not use.
void AppendModules(const LayerGraph& graph, size_t index, std::vector<Module>& modules) {
  const Layer& layer = graph.layers[index];
  std::map<std::string, bool> is_matrix;  // by tensor
  for (const Parameter& parameter : ParametersOf(graph, {layer.name, layer.spec, layer.hf_names}, {})) {
    for (const HfTensor& tensor : parameter.hf) is_matrix[tensor.name] = parameter.declaration.dims.size() > 1;
  }
  const bool has_linear = DecoderOf(layer.spec) != nullptr || std::holds_alternative<VisionSpec>(layer.spec) ||
                          std::holds_alternative<MergerSpec>(layer.spec);
  for (const auto& [role, name] : layer.hf_names) {
    const auto found = is_matrix.find(OfExpert(name, 0));
    if (found == is_matrix.end() || !(role.ends_with(".weight") || role == kDecay)) continue;
    const std::string stem = WithoutLast(role);
    const bool bare = !name.ends_with(".weight");
    modules.push_back({.layer = index,
                       .role = stem,
                       .name = bare ? name : WithoutLast(name),
                       .linear = has_linear && found->second && !bare && stem != "delta.conv",
                       .in_block = stem != "router" && stem != "shared_gate",
                       .part = PartOf(layer),
                       .bare = bare,
                       .experts = ExpertsOf(layer, name)});
  }
}

std::vector<Module> ModulesOf(const LayerGraph& graph) {
  std::vector<Module> modules;
  for (size_t i = 0; i < graph.layers.size(); ++i) AppendModules(graph, i, modules);
  return modules;
}

[[noreturn]] void RefuseName(const std::string& key, const std::string& name, const std::vector<Module>& modules) {
  std::vector<std::string> known = {kAllLinear};
  for (const Module& module : modules) {
    const std::string last = LastWord(module.name);
    if (std::find(known.begin(), known.end(), last) == known.end()) known.push_back(last);
  }
  const auto nearest = Nearest(name, known);
  throw InputError(key, ": '", name, "' is not a module of the model; ",
                   nearest ? Concat("nearest: '", *nearest, "'") : "known: " + Join(known));
}

std::regex PatternOf(const std::string& key, const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw InputError(key, ": '", kRegex, text, "' is not a regular expression: ", error.what());
  }
}

// An adapter of such a tensor has no module to be saved under.
void RefuseBare(const std::string& key, const Module& module) {
  if (!module.bare) return;
  throw InputError(key, ": ", module.name,
                   " is a tensor, not a module, and adapters of such tensors are not supported; ",
                   "remove it, or use tuning.kind full or freeze");
}

// The modules that one name of the key matches, at least one.
std::vector<const Module*> Matched(const std::vector<Module>& modules, const std::string& key,
                                   const std::string& name) {
  std::optional<std::regex> pattern;
  if (name.starts_with(kRegex)) pattern = PatternOf(key, name.substr(sizeof(kRegex) - 1));
  std::vector<const Module*> matched;
  for (const Module& module : modules) {
    const std::string part = name == kAllLinear ? PartName(ModelPart::kLanguage) : name;
    const bool by_kind = name == kAllWeights || (module.linear && module.in_block && PartName(module.part) == part);
    const bool by_name = pattern ? std::regex_match(OfExpert(module.name, 0), *pattern) : module.Is(name);
    if (by_kind || by_name) matched.push_back(&module);
  }
  // A word that both the language model and the tower use means the former; the tower's longer names reach it.
  const auto of_language = [](const Module* module) { return module->part == ModelPart::kLanguage; };
  if (!pattern && name != kAllWeights && std::any_of(matched.begin(), matched.end(), of_language)) {
    std::erase_if(matched, std::not_fn(of_language));
  }
  if (matched.empty() && pattern) {
    throw InputError(key, ": '", name, "' matches the whole name of no module, such as ",
                     OfExpert(modules.at(1).name, 0));
  }
  if (matched.empty()) RefuseName(key, name, modules);
  return matched;
}

// The modules that the names match, without the excluded ones.
std::vector<const Module*> Chosen(const std::vector<Module>& modules, const TargetNames& targets) {
  std::set<const Module*> excluded;
  for (const std::string& name : targets.excluded) {
    for (const Module* module : Matched(modules, "tuning.exclude", name)) excluded.insert(module);
  }
  std::vector<const Module*> chosen;
  for (const std::string& name : targets.names) {
    for (const Module* module : Matched(modules, targets.key, name)) {
      if (!excluded.contains(module) && !targets.frozen.contains(module->part)) chosen.push_back(module);
    }
  }
  if (chosen.empty() && !targets.names.empty() && !targets.frozen.empty() && excluded.empty()) {
    throw InputError(targets.key, ": ", Join(targets.names),
                     " are in parts that tuning.freeze names; nothing would be trained");
  }
  if (chosen.empty() && !excluded.empty()) {
    throw InputError(targets.key, ": ", Join(targets.names), " without tuning.exclude: ", Join(targets.excluded),
                     " leaves no module; exclude fewer");
  }
  return chosen;
}

// Chosen, where the name of a part that sees means all of it: norms and patches, too.
std::vector<const Module*> ChosenToSave(const std::vector<Module>& modules, TargetNames saved) {
  std::vector<const Module*> chosen;
  std::erase_if(saved.names, [&](const std::string& name) {
    const size_t before = chosen.size();
    for (const Module& module : modules) {
      if (module.part != ModelPart::kLanguage && PartName(module.part) == name) chosen.push_back(&module);
    }
    return chosen.size() > before;
  });
  for (const Module* module : Chosen(modules, saved)) chosen.push_back(module);
  return chosen;
}

// What projections and experts multiply by. The convolution of a Gated DeltaNet and its rates are read as they are.
bool CanBePacked(const LayerGraph& graph, const Module& module, PackedStorage::Kind kind) {
  if (kind == PackedStorage::Kind::kFp8 && module.experts > 0) return false;
  return DecoderOf(graph.layers[module.layer].spec) != nullptr && module.linear && module.in_block;
}

// Without those that the names mean.
std::vector<Module> PackedModules(const LayerGraph& graph, const PackedStorage& storage, const TargetNames& except) {
  const std::vector<Module> modules = ModulesOf(graph);
  std::set<const Module*> plain;
  for (const std::string& name : except.names) {
    for (const Module* module : Matched(modules, except.key, name)) plain.insert(module);
  }
  std::vector<Module> packed;
  for (const Module& module : modules) {
    if (CanBePacked(graph, module, storage.kind) && !plain.contains(&module)) packed.push_back(module);
  }
  return packed;
}

// What is packed is not trained. Without a list of what is trained, all else is.
void FreezePacked(Layer& layer) {
  if (layer.packed.empty() || layer.trained) return;
  layer.trained.emplace();
  for (const auto& [role, name] : layer.hf_names) {
    if (!layer.packed.contains(WithoutLast(role))) layer.trained->insert(role);
  }
}

// Every weight of the module: its matrix and its bias.
void Train(LayerGraph& graph, const Module& module) {
  Layer& layer = graph.layers[module.layer];
  for (const auto& [role, name] : layer.hf_names) {
    if (WithoutLast(role) == module.role) layer.trained->insert(role);
  }
}

void TrainNothing(LayerGraph& graph) {
  for (Layer& layer : graph.layers) layer.trained.emplace();
}

// The plan's entry for a module; all experts must have the same.
std::optional<AdapterModule> Wanted(const AdapterPlan& plan, const Module& module, std::set<std::string>& used) {
  std::optional<AdapterModule> wanted;
  for (int64_t expert = 0; expert < std::max<int64_t>(module.experts, 1); ++expert) {
    const std::string name = OfExpert(module.name, expert);
    const auto found = plan.modules.find(name);
    const std::optional<AdapterModule> own = found == plan.modules.end() ? std::nullopt : std::optional(found->second);
    if (expert > 0 && own != wanted) {
      throw InputError("adapter: ", name, " has ",
                       own ? Concat("rank ", own->rank, ", alpha ", own->alpha) : "no LoRA adapter",
                       ", unlike expert 0 of its layer; all experts of a layer must have the same");
    }
    wanted = own;
    if (own) used.insert(name);
  }
  return wanted;
}

// A place in a list, as in "merger.mlp.0": layers and blocks end with such words, too, which are no modules here.
bool IsNumber(const std::string& word) { return word.find_first_not_of("0123456789") == std::string::npos; }

// The last components of modules' names where all modules with that component are adapted; otherwise full
// names.
std::set<std::string> ShortTargets(const AdapterPlan& plan, const std::vector<Module>& modules) {
  std::set<std::string> ambiguous;
  for (const Module& module : modules) {
    if (!plan.modules.contains(OfExpert(module.name, 0))) ambiguous.insert(LastWord(module.name));
  }
  std::set<std::string> targets;
  for (const auto& [name, module] : plan.modules) {
    const std::string last = LastWord(name);
    targets.insert(ambiguous.contains(last) || IsNumber(last) ? name : last);
  }
  return targets;
}

}  // namespace

ModelPart PartOf(const Layer& layer) {
  if (std::holds_alternative<MergerSpec>(layer.spec)) return ModelPart::kAligner;
  return TowerOf(layer.spec) != nullptr ? ModelPart::kVision : ModelPart::kLanguage;
}

std::string PartName(ModelPart part) {
  if (part == ModelPart::kLanguage) return "language";
  return part == ModelPart::kVision ? "vision" : "aligner";
}

void FreezeParts(LayerGraph& graph, const std::set<ModelPart>& parts) {
  bool any = false;
  for (Layer& layer : graph.layers) {
    if (parts.contains(PartOf(layer))) {
      layer.trained.emplace();
      layer.low_rank.clear();
    }
    any = any || !layer.trained || !layer.trained->empty() || !layer.low_rank.empty();
  }
  if (!any) throw InputError("tuning.freeze leaves nothing to train; name fewer parts");
}

AdapterPlan PlanAdapter(const LayerGraph& graph, const TargetNames& targets, const TargetNames& saved,
                        const AdapterModule& each) {
  const std::vector<Module> modules = ModulesOf(graph);
  AdapterPlan plan;
  for (const Module* module : Chosen(modules, targets)) {
    RefuseBare(targets.key, *module);
    if (!module->linear) {
      throw InputError(targets.key, ": ", module->name,
                       " cannot have a LoRA adapter; list it in tuning.modules_to_save instead");
    }
    for (int64_t expert = 0; expert < std::max<int64_t>(module->experts, 1); ++expert) {
      plan.modules[OfExpert(module->name, expert)] = each;
    }
  }
  for (const Module* module : ChosenToSave(modules, saved)) {
    RefuseBare(saved.key, *module);
    if (module->experts > 0 || plan.modules.contains(module->name)) {
      throw InputError(saved.key, ": ", module->name,
                       module->experts > 0 ? " belongs to an expert" : " has a LoRA adapter",
                       " and cannot be trained in full; remove it");
    }
    plan.saved.insert(module->name);
    if (module->role == "embedding") plan.tied = HasTiedHead(graph);
  }
  return plan;
}

void ApplyAdapter(LayerGraph& graph, const AdapterPlan& plan) {
  const std::vector<Module> modules = ModulesOf(graph);
  TrainNothing(graph);
  graph.adapter = plan;
  graph.adapter->targets = ShortTargets(plan, modules);
  std::set<std::string> used;
  for (const Module& module : modules) {
    if (plan.saved.contains(module.name)) {
      if (module.role == "embedding" && HasTiedHead(graph) && !plan.tied) {
        throw InputError("adapter: ", module.name,
                         " is trained separately from the head, but the model ties their weights; "
                         "wanted an adapter with ensure_weight_tying");
      }
      Train(graph, module);
      used.insert(module.name);
    }
    const auto wanted = Wanted(plan, module, used);
    if (!wanted) continue;
    if (!module.linear) {
      throw InputError("adapter: ", module.name,
                       " has a LoRA adapter; only linear layers inside the model can have one");
    }
    if (plan.dora && (module.experts > 0 || !module.in_block)) {
      throw InputError("DoRA: ", module.name, module.experts > 0 ? " belongs to an expert" : " is a router or a gate",
                       ", which cannot have magnitudes; exclude it (tuning.exclude)");
    }
    graph.layers[module.layer].low_rank[module.role] = {wanted->rank, plan.ScaleOf(*wanted), plan.dora};
  }
  for (const auto& [name, module] : plan.modules) {
    if (!used.contains(name)) RefuseName("adapter", name, modules);
  }
  for (const std::string& name : plan.saved) {
    if (!used.contains(name)) RefuseName("adapter", name, modules);
  }
}

void Freeze(LayerGraph& graph, const TargetNames& targets, const TargetNames& saved, int64_t last_layers) {
  const std::vector<Module> modules = ModulesOf(graph);
  const int64_t decoders = DecodersIn(graph),
                head = static_cast<int64_t>(graph.layers.size() - EmbeddingIndex(graph)) - 1;
  if (last_layers > decoders) {
    throw InputError("tuning.last_layers = ", last_layers, "; the model has ", decoders, " layers; write at most ",
                     decoders);
  }
  TrainNothing(graph);
  for (const Module* module : Chosen(modules, targets)) {
    // The embedding is layer 0, the head the last.
    const auto layer = static_cast<int64_t>(module->layer) - static_cast<int64_t>(EmbeddingIndex(graph));
    const bool late = layer > decoders - last_layers && layer < head && module->role != kModelNorm;
    if (last_layers == 0 || late) Train(graph, *module);
  }
  for (const Module* module : ChosenToSave(modules, saved)) Train(graph, *module);
  const auto frozen = [](const Layer& layer) { return layer.trained->empty(); };
  if (std::all_of(graph.layers.begin(), graph.layers.end(), frozen)) {
    throw InputError(targets.key, ": ", Join(targets.names), " match no weights in the last ", last_layers,
                     " layers; nothing would be trained");
  }
}

void PackBase(LayerGraph& graph, const PackedStorage& storage, const TargetNames& except) {
  graph.packing = storage;
  for (const Module& module : PackedModules(graph, storage, except)) {
    Layer& layer = graph.layers[module.layer];
    if (layer.trained && layer.trained->contains(module.role + ".weight")) {
      throw InputError(storage.kind == PackedStorage::Kind::kFp8 ? "model.fp8: " : "model.quantise: ", module.name,
                       " is packed and cannot be trained; train an adapter of it ", "(tuning.targets), or list it in ",
                       except.key);
    }
    layer.packed.insert(module.role);
  }
  for (Layer& layer : graph.layers) FreezePacked(layer);
}

void CastProducts(LayerGraph& graph, const TargetNames& except) {
  graph.packing = kFp8Storage;
  for (const Module& module : PackedModules(graph, kFp8Storage, except)) {
    graph.layers[module.layer].cast.insert(module.role);
  }
}

void StoreCastProducts(LayerGraph& graph) {
  for (Layer& layer : graph.layers) {
    for (const std::string& role : layer.cast) {
      if (layer.trained) layer.trained->erase(role + ".weight");
    }
    layer.packed.merge(layer.cast);
    layer.cast.clear();
    FreezePacked(layer);
  }
}

}  // namespace trireme
