#include "data/hub/dataset_card.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/error.h"
#include "core/config/yaml_document.h"

namespace trireme {
namespace {

// What changes no row. Anything else is an option of a reader (sep, header, field, …).
constexpr std::array kHarmless = {"config_name", "data_files", "data_dir", "default",
                                  "description", "version",    "features", "license"};

// The lines between the first two of ---, with an empty one for each before them so that errors name the right line.
std::string FrontMatter(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string::npos || text.compare(first, 3, "---") != 0) return "";
  const size_t begin = text.find('\n', first);
  if (begin == std::string::npos) return "";
  const auto before = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
  for (size_t end = begin; end != std::string::npos; end = text.find('\n', end + 1)) {
    const std::string_view line = std::string_view(text).substr(end + 1, 4);
    if (!line.starts_with("---") || (line.size() > 3 && line[3] != '\n' && line[3] != '\r')) continue;
    return std::string(static_cast<size_t>(before), '\n') + text.substr(begin, end - begin + 1);
  }
  return "";
}

class CardReader {
 public:
  explicit CardReader(const std::string& who) : source_{who} {}

  std::vector<CardSubset> Read(const std::string& yaml) const {
    const YAML::Node card = ParseYaml(yaml, source_);
    std::vector<CardSubset> subsets;
    if (!card.IsMap() || !card["configs"] || card["configs"].IsNull()) return subsets;
    const YAML::Node configs = card["configs"];
    if (!configs.IsSequence()) Refuse(configs, "configs", "a list of subsets");
    for (const YAML::Node& config : configs) subsets.push_back(ReadSubset(config));
    return subsets;
  }

 private:
  [[noreturn]] void Refuse(const YAML::Node& node, const char* what, const char* wanted) const {
    throw InputError(source_.At(node.Mark()), what, " is ", FoundText(node), "; wanted ", wanted);
  }

  static std::string Scalar(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : std::string(); }

  std::string Text(const YAML::Node& parent, const char* key) const {
    const std::string text = Scalar(parent[key]);
    if (text.empty()) throw InputError(source_.At(parent.Mark()), "an entry has no ", key, "; wanted a text");
    return text;
  }

  CardSubset ReadSubset(const YAML::Node& config) const {
    if (!config.IsMap()) Refuse(config, "a subset", "its keys, config_name among them");
    CardSubset subset{.name = Text(config, "config_name")};
    subset.folder = Scalar(config["data_dir"]);
    if (const YAML::Node node = config["default"]) subset.is_default = node.as<bool>(false);
    if (const YAML::Node files = config["data_files"]; files && !files.IsNull()) subset.splits = ReadSplits(files);
    for (const auto& item : config) {
      const std::string key = Scalar(item.first);
      const bool comma = (key == "sep" || key == "delimiter") && Scalar(item.second) == ",";
      if (!comma && std::ranges::find(kHarmless, key) == kHarmless.end()) subset.refused = key;
    }
    return subset;
  }

  std::vector<std::string> ReadPatterns(const YAML::Node& node) const {
    if (node.IsScalar()) return {node.Scalar()};
    if (!node.IsSequence()) Refuse(node, "a path of data_files", "a pattern, or a list of them");
    std::vector<std::string> patterns;
    for (const YAML::Node& pattern : node) patterns.push_back(Scalar(pattern));
    return patterns;
  }

  std::vector<SplitPatterns> ReadSplits(const YAML::Node& files) const {
    const bool by_split = files.IsSequence() && files.size() > 0 && files[0].IsMap();
    if (!by_split) return {{"train", ReadPatterns(files)}};
    std::vector<SplitPatterns> splits;
    for (const YAML::Node& entry : files) {
      if (!entry.IsMap() || entry.size() != 2 || !entry["path"])
        Refuse(entry, "an entry of data_files", "split and path, and no other keys");
      SplitPatterns split{Text(entry, "split"), ReadPatterns(entry["path"])};
      const bool twice =
          std::ranges::any_of(splits, [&](const SplitPatterns& other) { return other.split == split.split; });
      if (twice) throw InputError(source_.At(entry.Mark()), "the split ", split.split, " is given twice");
      splits.push_back(std::move(split));
    }
    return splits;
  }

  const YamlSource source_;
};

}  // namespace

std::vector<CardSubset> ReadCard(const std::string& text, const std::string& who, bool whole) {
  try {
    return CardReader(who).Read(whole ? text : FrontMatter(text));
  } catch (const YAML::Exception& error) {
    throw InputError(who, ": ", error.what());
  }
}

}  // namespace trireme
