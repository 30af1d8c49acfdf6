#include "models/text_labels.h"

#include <filesystem>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/config.pb.h"
#include "models/hf_config.h"
#include "models/reward_model.h"

namespace trireme {
namespace {

std::string DefaultLabel(int64_t number) { return Concat("LABEL_", number); }

// Those of a model that is a classifier already; nothing if it is none.
std::optional<std::vector<std::string>> LabelsOfModel(const std::filesystem::path& model) {
  if (!PathExists(model / "config.json")) return std::nullopt;
  const HfConfig config = HfConfig::Read(model);
  if (!IsClassifier(config)) return std::nullopt;
  const Json names = ReadJsonFile((model / "config.json").string()).value("id2label", Json::object());
  std::vector<std::string> labels;
  for (int64_t i = 0; i < config.Labels(); ++i) {
    const Json name = names.is_object() ? names.value(std::to_string(i), Json()) : Json();
    labels.push_back(name.is_string() ? name.get<std::string>() : DefaultLabel(i));
  }
  return labels;
}

void CheckNames(const RetrievalConfig& keys) {
  std::set<std::string> seen;
  for (const std::string& name : keys.label_names()) {
    if (name.empty()) throw InputError("retrieval.label_names has an empty name; name every label");
    if (!seen.insert(name).second) throw InputError("retrieval.label_names has '", name, "' twice");
  }
  if (keys.labels() == 0 || keys.label_names().empty() || keys.labels() == keys.label_names_size()) return;
  throw InputError("retrieval.labels = ", keys.labels(), " and retrieval.label_names has ", keys.label_names_size(),
                   "; leave labels out, or name as many");
}

}  // namespace

std::vector<std::string> LabelNamesOf(const RetrievalConfig& keys, const std::string& model) {
  CheckNames(keys);
  const int64_t wanted = keys.label_names().empty() ? keys.labels() : keys.label_names_size();
  std::vector<std::string> names(keys.label_names().begin(), keys.label_names().end());
  if (const auto given = LabelsOfModel(model)) {
    if (wanted != 0 && wanted != std::ssize(*given)) {
      throw InputError(model, ": is a classifier of ", given->size(), " labels; retrieval.",
                       names.empty() ? "labels" : "label_names", " wants ", wanted,
                       "; write as many, or start from a model without that head");
    }
    return names.empty() ? *given : names;
  }
  const bool regression = keys.problem() == PROBLEM_REGRESSION;
  const int64_t count = wanted > 0 ? wanted : regression ? 1 : 2;
  if (count == 1 && keys.problem() == PROBLEM_SINGLE_LABEL) {
    throw InputError("retrieval.labels = 1: one label alone tells nothing apart; wanted 2 or more, or ",
                     "retrieval.problem: multi_label or regression");
  }
  for (int64_t i = std::ssize(names); i < count; ++i) names.push_back(DefaultLabel(i));
  return names;
}

std::vector<std::string> NumberedLabels(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(DefaultLabel(i));
  return names;
}

std::string ProblemTypeOf(const RetrievalConfig& keys) {
  switch (keys.problem()) {
    case PROBLEM_SINGLE_LABEL:
      return "single_label_classification";
    case PROBLEM_MULTI_LABEL:
      return "multi_label_classification";
    case PROBLEM_REGRESSION:
      return "regression";
  }
  return "";
}

}  // namespace trireme
