#include "session/tuning.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "models/reward_model.h"
#include "parallel/graph/mtp.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"

namespace trireme {
namespace {

std::set<ModelPart> FrozenParts(const TuningConfig& tuning) {
  std::set<ModelPart> parts;
  constexpr ModelPart kParts[] = {ModelPart::kVision, ModelPart::kAligner, ModelPart::kLanguage};
  for (const std::string& name : tuning.freeze()) {
    const auto part = std::ranges::find(kParts, name, PartName);
    if (part == std::end(kParts))
      throw InputError("tuning.freeze has '", name, "'; wanted vision, aligner or language");
    parts.insert(*part);
  }
  return parts;
}

TargetNames TargetsOf(const TuningConfig& tuning) {
  return {"tuning.targets",
          {tuning.targets().begin(), tuning.targets().end()},
          {tuning.exclude().begin(), tuning.exclude().end()},
          FrozenParts(tuning)};
}

TargetNames SavedOf(const TuningConfig& tuning) {
  return {"tuning.modules_to_save", {tuning.modules_to_save().begin(), tuning.modules_to_save().end()}};
}

// As PEFT writes it.
std::string InitOf(const TuningConfig& tuning) {
  if (tuning.init() == ADAPTER_INIT_LORA) return "";
  if (tuning.init() == ADAPTER_INIT_OLORA) return "olora";
  return tuning.pissa_niter() > 0 ? Concat("pissa_niter_", tuning.pissa_niter()) : "pissa";
}

// DoRA has no dropout: the default, which a config has wherever its user says nothing, is not meant there.
double DropoutOf(const TuningConfig& tuning, bool dora) {
  return dora && tuning.dropout() == TuningConfig::default_instance().dropout() ? 0 : tuning.dropout();
}

AdapterPlan AdapterPlanOf(const LayerGraph& graph, const TuningConfig& tuning) {
  AdapterPlan plan;
  if (const auto files = OpenAdapter(tuning, graph)) {
    plan = files->Plan();
  } else {
    if (std::count(tuning.targets().begin(), tuning.targets().end(), kAllWeights) > 0) {
      throw InputError("tuning.targets: '", kAllWeights, "' is for tuning.kind freeze; write all-linear");
    }
    plan = PlanAdapter(graph, TargetsOf(tuning), SavedOf(tuning), {.rank = tuning.rank(), .alpha = tuning.alpha()});
    plan.rslora = tuning.rslora();
    plan.dora = tuning.dora();
    plan.init = InitOf(tuning);
  }
  if (HasValueHead(graph)) plan.saved.insert(kScoreModule);  // as PEFT does for classifiers
  plan.dropout = DropoutOf(tuning, plan.dora);
  return plan;
}

// Of how adapters start, and of DoRA.
void RefuseWrongStart(const TuningConfig& tuning) {
  const bool starts = tuning.init() != ADAPTER_INIT_LORA;
  const std::string init = Concat("tuning.init ", starts ? InitOf(tuning) : "");
  if (starts && !tuning.adapters().empty()) {
    throw InputError(init, " is for new adapters, and tuning.adapters = ", tuning.adapters(),
                     " has its own weights; remove one");
  }
  if (starts && tuning.dora()) {
    throw InputError(init, " and tuning.dora do not go together: the adapters of DoRA start at zero; remove one");
  }
}

// The component at a position of a dotted name; negative: from its end.
std::string Word(const std::string& name, int place) {
  std::vector<std::string> words(1);
  for (const char letter : name) {
    if (letter == '.') {
      words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  return words.at(place < 0 ? words.size() - static_cast<size_t>(-place) : static_cast<size_t>(place));
}

}  // namespace

ExpertNames ExpertNamesOf(const LayerGraph& graph) {
  const HfNames& first = graph.layers.front().hf_names;
  const auto patch = first.find("patch.weight");
  if (patch != first.end() && patch->second.starts_with("visual.")) return {.older_names = true};
  if (patch != first.end() && patch->second.starts_with("vision_tower."))
    return {.older_names = true, .internvl = true};
  if (graph.family == "qwen2_5_vl" || graph.family == "internvl") return {.newer_names = true};
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr || !decoder->experts || !layer.hf_names.contains("experts.gate.weight")) continue;
    if (layer.hf_names.at("experts.gate.weight").find("{expert}") == std::string::npos)
      continue;  // stacked: no adapters
    const auto word = [&](const char* role, int place) { return Word(layer.hf_names.at(role), place); };
    return {.block = word("experts.gate.weight", 3),  // model.layers.0.BLOCK
            .gate = word("experts.gate.weight", -2),
            .up = word("experts.up.weight", -2),
            .down = word("experts.down.weight", -2)};
  }
  return {};
}

std::unique_ptr<AdapterDirectory> OpenAdapter(const TuningConfig& tuning, const LayerGraph& graph) {
  if (tuning.kind() != TUNING_LORA || tuning.adapters().empty()) return nullptr;
  return std::make_unique<AdapterDirectory>(tuning.adapters(), ExpertNamesOf(graph));
}

TuningConfig ResolveTuning(const TuningConfig& tuning, const LayerGraph& graph) {
  const auto files = OpenAdapter(tuning, graph);
  TuningConfig resolved = tuning;
  if (files == nullptr) {
    if (tuning.dora()) resolved.set_dropout(DropoutOf(tuning, true));
    return resolved;
  }
  const AdapterPlan plan = files->Plan();
  if (plan.dora) resolved.set_dropout(DropoutOf(tuning, true));
  resolved.set_rslora(plan.rslora);
  resolved.set_dora(plan.dora);
  resolved.clear_targets();
  resolved.clear_modules_to_save();
  std::map<std::pair<int64_t, double>, int> counts;
  std::set<std::string> targets;
  for (const auto& [name, module] : plan.modules) {
    ++counts[{module.rank, module.alpha}];
    targets.insert(Word(name, -1));
  }
  const auto commonest = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  if (commonest != counts.end()) {
    resolved.set_rank(static_cast<int32_t>(commonest->first.first));
    resolved.set_alpha(commonest->first.second);
  }
  for (const std::string& target : targets) resolved.add_targets(target);
  for (const std::string& saved : plan.saved) resolved.add_modules_to_save(saved);
  return resolved;
}

void ApplyMultiToken(LayerGraph& graph, const Config& config) {
  const MultiTokenConfig& wanted = config.multi_token_prediction();
  const auto most = static_cast<int64_t>(graph.mtp.size());
  const std::string key = Concat("multi_token_prediction.depths = ", wanted.depths());
  if (wanted.depths() > most) {
    throw InputError(key, ": this ", graph.family, " model has ", most,
                     " MTP layers (num_nextn_predict_layers in its config.json); set it to at most ", most);
  }
  if (wanted.depths() > 0 && config.tuning().kind() == TUNING_LORA) {
    throw InputError(key, " with tuning.kind lora: adapter files cannot hold MTP layers; set it to 0, or ",
                     "tuning.kind full or freeze");
  }
  AddMtpLayers(graph, wanted.depths(), wanted.loss_weight());
}

void ApplyTuning(LayerGraph& graph, const TuningConfig& tuning) {
  if (tuning.kind() == TUNING_LORA) RefuseWrongStart(tuning);
  const std::set<ModelPart> frozen = FrozenParts(tuning);
  if (!frozen.empty() && !graph.images) {
    throw InputError("tuning.freeze: this ", graph.family, " model has no vision tower; leave it out");
  }
  if (!frozen.empty() && !tuning.adapters().empty()) {
    throw InputError("tuning.freeze with tuning.adapters = ", tuning.adapters(),
                     ": the adapter has its own modules; leave it out");
  }
  if (tuning.kind() == TUNING_FULL && !frozen.empty()) return FreezeParts(graph, frozen);
  if (tuning.kind() == TUNING_LORA) ApplyAdapter(graph, AdapterPlanOf(graph, tuning));
  if (tuning.kind() != TUNING_FREEZE) return;
  TargetNames saved = SavedOf(tuning);
  if (graph.drawn.contains(kScoreWeight)) saved.names.emplace_back(kScoreModule);  // a new head says nothing yet
  Freeze(graph, TargetsOf(tuning), saved, tuning.last_layers());
  if (!frozen.empty()) FreezeParts(graph, frozen);
}

}  // namespace trireme
