// YAML text as a tree of nodes, rejecting what a configuration must not use: anchors, aliases, tags, more
// than one document. A value is then written where it is used, and its line is the line to correct. Knows no
// schema.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace trireme {

// Where YAML text came from, for error messages.
struct YamlSource {
  std::string name;       // "run.yaml", or "--set parallel.tensor=2"
  bool has_lines = true;  // a --set has none worth reporting

  // "run.yaml:12: "; yaml-cpp counts lines from 0.
  std::string At(const YAML::Mark& mark) const;
};

// A null node for empty text.
YAML::Node ParseYaml(const std::string& text, const YamlSource& source);

// Whether the value is unquoted, so that it may be a number or a boolean.
bool IsPlainScalar(const YAML::Node& node);

// "'two'", "a list", "keys", "nothing": how an error names what was found.
std::string FoundText(const YAML::Node& node);

}  // namespace trireme
