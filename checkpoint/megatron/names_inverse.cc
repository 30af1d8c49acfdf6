// From Hugging Face tensors to Megatron's, by the same table.
#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/name_rules.h"
#include "checkpoint/megatron/names.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

constexpr int64_t kNoLayer = -1;

}  // namespace

// The tensors of one layer, or of one expert of it: by their names in the table.
struct MegatronNames::Group {
  int64_t layer;  // of the Hugging Face files; kNoLayer: of the model
  std::optional<int64_t> expert;
  std::map<std::string, std::string> names;
};

std::vector<MegatronNames::Group> MegatronNames::GroupsOf(const std::map<std::string, Shape>& tensors) const {
  std::map<std::pair<int64_t, int64_t>, Group> groups;
  for (const auto& [name, shape] : tensors) {
    std::string rest = name;
    const int64_t layer = NumberAfter(name, kHfLayers, rest).value_or(kNoLayer);
    const std::optional<int64_t> expert = TakeExpert(rest);
    Group& group = groups[{layer, expert.value_or(-1)}];
    group.layer = layer;
    group.expert = expert;
    group.names[rest] = name;
  }
  std::vector<Group> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  return sorted;
}

std::string MegatronNames::NameIn(const Group& group, const NameRule& rule) const {
  const std::string name = WithExpert(rule.megatron, group.expert);
  if (rule.of == NameOwner::kModel) return name;
  if (group.layer < layers_) return Concat(kDecoder, group.layer, ".", name);
  const bool is_inner = rule.of == NameOwner::kLayer;
  return Concat(kMtp, group.layer - layers_, ".", is_inner ? kMtpInner : "", name);
}

MegatronTarget MegatronNames::TargetOf(const NameRule& rule, const Group& group,
                                       const std::map<std::string, Shape>& tensors, int64_t padded_vocabulary) const {
  MegatronTarget target{NameIn(group, rule), {}, {}};
  for (const char* part : rule.hf) {
    const auto found = group.names.find(part);
    if (found == group.names.end())
      throw InputError(where_, ": '", group.names.at(rule.hf[0]), "' has no '", part, "' beside it, which Megatron's '",
                       target.name, "' holds, too");
    const Shape& shape = tensors.at(found->second);
    if (shape.empty() || (!target.shape.empty() &&
                          !std::equal(shape.begin() + 1, shape.end(), target.shape.begin() + 1, target.shape.end())))
      throw InputError(where_, ": '", found->second, "' has the shape ", ShapeText(shape),
                       ", which does not fit Megatron's '", target.name, "'");
    const int64_t rows = target.shape.empty() ? 0 : target.shape[0];
    target.shape = shape;
    target.shape[0] += rows;
  }
  if (rule.way == NameWay::kVocabulary) target.shape[0] = std::max(target.shape[0], padded_vocabulary);
  target.parts = ToHuggingFace(target.name, target.shape);
  for (const NamedRows& part : target.parts) {
    const int64_t rows = tensors.at(part.hf_name)[0];
    if (rows != part.rows)
      throw InputError(where_, ": '", part.hf_name, "' has ", rows, " rows, and by this config.json it has ",
                       part.rows);
  }
  return target;
}

std::vector<MegatronTarget> MegatronNames::FromHuggingFace(const std::map<std::string, Shape>& tensors,
                                                           int64_t padded_vocabulary) const {
  std::vector<MegatronTarget> targets;
  std::set<std::string> taken;
  for (const Group& group : GroupsOf(tensors)) {
    for (const NameRule& rule : NameRules()) {
      const auto first = group.names.find(rule.hf[0]);
      const bool is_mtp = group.layer >= layers_;
      if (first == group.names.end() || taken.contains(first->second) || !Applies(rule)) continue;
      if ((rule.of == NameOwner::kModel) != (group.layer == kNoLayer) || (rule.of == NameOwner::kMtpLayer && !is_mtp))
        continue;
      targets.push_back(TargetOf(rule, group, tensors, padded_vocabulary));
      for (const NamedRows& part : targets.back().parts) taken.insert(part.hf_name);
    }
  }
  for (const auto& [name, shape] : tensors) {
    if (!taken.contains(name))
      throw InputError(where_, ": '", Printable(name), "' has no name in Megatron's checkpoints of ", family_);
  }
  return targets;
}

std::string MegatronNames::OriginalOf(const std::string& hf_name) const {
  std::string rest;
  const std::optional<int64_t> layer = NumberAfter(hf_name, kHfLayers, rest);
  if (tied_ && hf_name == kHfHead) return std::string(kHfEmbedding);
  if (!layer || *layer < layers_) return "";
  if (rest == "embed_tokens.weight") return std::string(kHfEmbedding);
  if (rest == "shared_head.head.weight") return std::string(tied_ ? kHfEmbedding : kHfHead);
  return "";
}

}  // namespace trireme
