// Walks YAML nodes and the schema together. Nothing here knows a key by name.
#include "core/config/load.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/problems.h"
#include "core/base/text.h"
#include "core/config/former_names.h"
#include "core/config/names.h"
#include "core/config/other_names.h"
#include "core/config/paths.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"
#include "core/config/stage_defaults.h"
#include "core/config/yaml_document.h"

namespace trireme {
namespace {

using google::protobuf::Message;

// A key of the whole configuration: the section that has it, and its field; nullptr if there is no such key.
struct Place {
  Message* section = nullptr;
  const FieldDescriptor* field = nullptr;
};

Place FindPlace(const std::string& key, Config& config) {
  Place place{.section = &config};
  for (size_t begin = 0;;) {
    const size_t dot = key.find('.', begin);
    const bool last = dot == std::string::npos;
    place.field = place.section->GetDescriptor()->FindFieldByName(key.substr(begin, dot - begin));
    if (place.field == nullptr || (!last && !IsSection(*place.field))) return {};
    if (last) return place;
    place.section = place.section->GetReflection()->MutableMessage(place.section, place.field);
    begin = dot + 1;
  }
}

// By which name each key was given first, and where: in the file, or by --set. What --set gives overrides the file
// whichever names the two use.
struct Given {
  std::string name;
  YAML::Mark mark;
};
using GivenKeys = std::map<std::string, Given>;

// Problems are collected in `problems` and reading continues, so that a user sees every error at once.
class Reader {
 public:
  Reader(const YamlSource& source, Config& config, GivenKeys& given, Problems& problems)
      : source_(source), config_(config), given_(given), problems_(problems) {}

  // `path` is the section's key followed by a dot, or empty for the whole file.
  void ReadSection(const YAML::Node& node, const std::string& path, Message& section) const {
    std::map<std::string, YAML::Mark> seen;
    for (const auto& entry : node) {
      const YAML::Mark mark = entry.first.Mark();
      if (!entry.first.IsScalar()) {
        problems_.Add(NotAKey(entry.first, path));
        continue;
      }
      const std::string name = entry.first.Scalar();
      const auto [first, is_new] = seen.emplace(name, mark);
      Place place{.section = &section, .field = section.GetDescriptor()->FindFieldByName(name)};
      if (place.field == nullptr) place = FindFormer(path + name);
      if (!is_new) {
        problems_.Add(GivenTwice(path + name, first->second, mark));
      } else if (place.field == nullptr) {
        problems_.Add(UnknownKey(path, name, mark));
      } else {
        ReadField(entry.second, path + name, mark, *place.field, *place.section);
      }
    }
  }

  // `mark` is the key's position: the line to look at when a value is missing or spans lines. `key` is as it was given:
  // maybe by its former name.
  void ReadField(const YAML::Node& node, const std::string& key, const YAML::Mark& mark, const FieldDescriptor& field,
                 Message& section) const {
    const bool right_kind = IsSection(field)      ? node.IsMap() || node.IsNull()
                            : field.is_repeated() ? node.IsSequence() || node.IsScalar()
                                                  : node.IsScalar();
    if (!right_kind) {
      problems_.Add(WrongValue(key, mark, field, node));
    } else if (IsSection(field)) {
      ReadSection(node, Concat(key, "."), *section.GetReflection()->MutableMessage(&section, &field));
    } else if (IsGivenByAnotherName(key, mark)) {
      return;
    } else if (field.is_repeated()) {
      ReadList(node, key, field, section);
    } else if (!ReadScalar(node, field, section)) {
      problems_.Add(WrongValue(key, mark, field, node));
    } else {
      RefuseOtherNames(node, key, mark);
    }
  }

 private:
  Place FindFormer(const std::string& name) const {
    const auto present = KeyFormerlyCalled(name);
    return present ? FindPlace(*present, config_) : Place{};
  }

  // Adds the problem, too: which of the two values is meant is not known.
  bool IsGivenByAnotherName(const std::string& key, const YAML::Mark& mark) const {
    const std::string present = PresentName(key);
    const Given& first = given_.emplace(present, Given{key, mark}).first->second;
    if (first.name == key) return false;
    const std::string former = key == present ? first.name : key;
    const std::string where = source_.has_lines ? Concat(", the other in line ", first.mark.line + 1) : "";
    problems_.Add(InputError(source_.At(mark), key, ": ", former, " is the former name of ", present,
                             ", and both are given", where, "; keep ", present));
    return true;
  }

  void RefuseOtherNames(const YAML::Node& node, const std::string& key, const YAML::Mark& mark) const {
    const std::vector<std::string> names = OfferedNames(PresentName(key));
    if (names.empty() || std::find(names.begin(), names.end(), node.Scalar()) != names.end()) return;
    problems_.Add(InputError(source_.At(mark), key, ": wanted one of ", Join(names), ", found ", FoundText(node)));
  }

  // A single value is a list of one.
  void ReadList(const YAML::Node& node, const std::string& key, const FieldDescriptor& field, Message& section) const {
    section.GetReflection()->ClearField(&section, &field);
    if (node.IsScalar()) {
      if (!AddItem(node, field, section)) problems_.Add(WrongItem(node, key, field));
      return;
    }
    for (size_t i = 0; i < node.size(); ++i) {
      if (!AddItem(node[i], field, section)) problems_.Add(WrongItem(node[i], Concat(key, "[", i, "]"), field));
    }
  }

  Error WrongItem(const YAML::Node& node, const std::string& key, const FieldDescriptor& field) const {
    return InputError(source_.At(node.Mark()), key, ": wanted ", WantedItemInstead(node, field), ", found ",
                      FoundText(node));
  }

  Error WrongValue(const std::string& key, const YAML::Mark& mark, const FieldDescriptor& field,
                   const YAML::Node& node) const {
    return InputError(source_.At(mark), key, ": wanted ", WantedInstead(node, field), ", found ", FoundText(node));
  }

  Error GivenTwice(const std::string& key, const YAML::Mark& first, const YAML::Mark& second) const {
    const std::string where = source_.has_lines ? Concat(", first in line ", first.line + 1) : "";
    return InputError(source_.At(second), key, ": given twice", where, "; keep one");
  }

  Error UnknownKey(const std::string& path, const std::string& name, const YAML::Mark& mark) const {
    const size_t dot = name.find('.');
    std::string problem = Concat("unknown key; ", UnknownKeyHint(path + name));
    if (name == "<<") problem = "merge keys are not supported; write the keys themselves";
    if (dot != std::string::npos) {
      problem = Concat("unknown key; write ", name.substr(0, dot), ": {", name.substr(dot + 1), ": …}");
    }
    return InputError(source_.At(mark), path, name, ": ", problem);
  }

  Error NotAKey(const YAML::Node& node, const std::string& path) const {
    const std::string section = path.empty() ? "" : Concat(path.substr(0, path.size() - 1), ": ");
    return InputError(source_.At(node.Mark()), section, "wanted a key, found ", FoundText(node));
  }

  const YamlSource& source_;
  Config& config_;
  GivenKeys& given_;
  Problems& problems_;
};

// "parallel.tensor=2": finds the section that holds the key, then reads the value as YAML.
void ApplyOverride(const std::string& text, Config& config, GivenKeys& given, Problems& problems) {
  const YamlSource source{.name = Concat("--set ", text), .has_lines = false};
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(source.name, ": wanted key=value, such as --set parallel.tensor=2");
  }
  const std::string key = text.substr(0, equals);
  const Place place = FindPlace(PresentName(key), config);
  if (place.field == nullptr) throw InputError(source.name, ": unknown key; ", UnknownKeyHint(key));
  const YAML::Node value = ParseYaml(text.substr(equals + 1), source);
  Reader(source, config, given, problems).ReadField(value, key, value.Mark(), *place.field, *place.section);
}

// A file with several keys of another system is one of its own.
void OfferTranslation(const YAML::Node& document, const std::string& name, Problems& problems) {
  int theirs = 0;
  for (const auto& entry : document) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    theirs += Config::descriptor()->FindFieldByName(key) == nullptr && !FindOtherNames(key).empty();
  }
  if (theirs > 1)
    problems.Add(
        InputError(name, ": these are another system's keys; trireme translate ", name, " writes a run.yaml of them"));
}

}  // namespace

Config LoadConfig(const std::string& path, const std::vector<std::string>& overrides, const Config* earlier) {
  return ParseConfig(ReadTextFile(path), path, overrides, earlier);
}

Config ParseConfig(const std::string& text, const std::string& name, const std::vector<std::string>& overrides,
                   const Config* earlier) {
  const YamlSource source{.name = name};
  const YAML::Node document = ParseYaml(text, source);
  if (!document.IsNull() && !document.IsMap()) {
    throw InputError(source.At(document.Mark()), "wanted keys such as device: auto, found ", FoundText(document));
  }
  Config config = DefaultConfig();
  ClearStageDefaults(config);
  Problems problems;
  GivenKeys in_file, set;
  Reader(source, config, in_file, problems).ReadSection(document, "", config);
  OfferTranslation(document, name, problems);
  for (const std::string& text_of_override : overrides) {
    problems.Try([&] { ApplyOverride(text_of_override, config, set, problems); });
  }
  problems.ThrowIfAny();
  FillStageDefaults(config, earlier);
  ExpandPaths(config);
  return config;
}

}  // namespace trireme
