// Expands "~" at the beginning of a path as a shell does. A shell does so only at the beginning of a word, so
// not in a YAML file and not in --set model.path=~/x.
#pragma once

#include <string>

namespace trireme {

// "~" and "~/x": HOME, or the user's home directory if HOME is not set; "~name/x": that user's. Anything
// else, including an unknown user, is left as it is.
std::string ExpandHome(const std::string& path);

}  // namespace trireme
