#include "translate/given.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/yaml_document.h"

namespace trireme {
namespace {

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string PlainName(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  return name;
}

// "--lr", "-tp", not "-1" and not "-0.5".
bool IsOptionWord(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '-' ? word.size() > 2 : std::isalpha(word[1]) != 0);
}

// A list of mappings or a mapping within a value, as JSON-like text.
std::string NodeText(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  if (node.IsNull()) return "null";
  return YAML::Dump(node);
}

// "[a, 'b']" as its items, also within quotes; what YAML cannot read is one text.
std::vector<std::string> ItemsOf(std::string text) {
  if (text.size() > 1 && text.front() == '\'' && text.back() == '\'') text = text.substr(1, text.size() - 2);
  if (!text.starts_with("[")) return {text};
  try {
    std::vector<std::string> items;
    const YAML::Node list = ParseYaml(text, {.name = text});
    for (const YAML::Node& item : list) items.push_back(NodeText(item));
    return items;
  } catch (const Error&) {
    return {text};
  }
}

}  // namespace

std::string Setting::value() const { return values.empty() ? "true" : Join(values, " "); }

bool Setting::off() const {
  const std::string text = Lower(value());
  return text.empty() || text == "false" || text == "none" || text == "null" || text == "0" || text == "no" ||
         text == "0.0";
}

const Setting* Given::Find(const std::string& name) const {
  const auto found =
      std::find_if(settings.rbegin(), settings.rend(), [&](const Setting& one) { return one.name == name; });
  return found == settings.rend() ? nullptr : &*found;
}

std::string Given::Value(const std::string& name, const std::string& otherwise) const {
  const Setting* setting = Find(name);
  return setting == nullptr || Lower(setting->value()) == "null" || Lower(setting->value()) == "none"
             ? otherwise
             : setting->value();
}

double Given::Number(const std::string& name, double otherwise) const {
  const std::string text = Value(name, "");
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (*end != '\0') throw InputError(Find(name)->origin, ": wanted a number, found '", text, "'");
  return number;
}

bool Given::IsOn(const std::string& name, bool otherwise) const {
  const Setting* setting = Find(name);
  return setting == nullptr ? otherwise : !setting->off();
}

std::vector<Setting> SettingsOf(const std::vector<std::string>& words) {
  std::vector<Setting> settings;
  for (const std::string& word : words) {
    if (!IsOptionWord(word)) {
      if (settings.empty()) throw InputError("'", word, "': wanted an option, as in --model DIR");
      settings.back().values.push_back(word);
      settings.back().origin += " " + word;
      continue;
    }
    const size_t equals = word.find('=');
    settings.push_back({PlainName(word.substr(0, equals)), {}, word});
    if (equals != std::string::npos) settings.back().values.push_back(word.substr(equals + 1));
  }
  return settings;
}

std::vector<Setting> SettingsOfHydra(const std::vector<std::string>& words) {
  std::vector<Setting> settings;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      settings.push_back({PlainName(word), {}, word});
      continue;
    }
    const size_t begin = word.find_first_not_of("+~-");
    std::string name = word.substr(begin, equals - begin);
    std::ranges::replace(name, '-', '_');
    settings.push_back({name, ItemsOf(word.substr(equals + 1)), word});
  }
  return settings;
}

std::vector<Setting> SettingsOfYaml(const std::string& text, const std::string& name) {
  const YamlSource source{.name = name};
  const YAML::Node document = ParseYaml(text, source);
  if (!document.IsMap()) throw InputError(name, ": wanted keys with values, found ", FoundText(document));
  std::vector<Setting> settings;
  for (const auto& entry : document) {
    Setting setting{PlainName(entry.first.Scalar()), {}, ""};
    if (entry.second.IsSequence()) {
      for (const YAML::Node& item : entry.second) setting.values.push_back(NodeText(item));
    } else {
      setting.values.push_back(NodeText(entry.second));
    }
    setting.origin = Concat(entry.first.Scalar(), ": ", Join(setting.values));
    settings.push_back(setting);
  }
  return settings;
}

}  // namespace trireme
