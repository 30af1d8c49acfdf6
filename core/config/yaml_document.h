// YAML text as a tree of nodes, refusing what a configuration must not use: anchors, aliases, tags, more than
// one document. A value then stands where it is used, and its line is the line to correct. Knows no schema.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace trireme {

// Where YAML text came from, for error messages.
struct YamlSource {
  std::string name;       // "run.yaml", or "--set parallel.tensor=2"
  bool has_lines = true;  // a --set has none worth naming

  // "run.yaml:12: "; yaml-cpp counts lines from 0.
  std::string At(const YAML::Mark& mark) const;
};

// A null node for empty text.
YAML::Node ParseYaml(const std::string& text, const YamlSource& source);

// Whether it stands there without quotes, so that it may be a number or a truth value.
bool IsPlainScalar(const YAML::Node& node);

// "'two'", "a list", "keys", "nothing": how an error names what was found.
std::string FoundText(const YAML::Node& node);

}  // namespace trireme
