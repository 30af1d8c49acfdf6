// "~" at the beginning of a path, as a shell reads it. A shell does so only at the beginning of a word: in a
// YAML file and in --set model.path=~/x nobody would.
#pragma once

#include <string>

namespace trireme {

// "~" and "~/x": HOME, or the user's home directory where that is not set; "~name/x": that user's. Anything
// else, also the name of nobody, stays as it is.
std::string ExpandHome(const std::string& path);

}  // namespace trireme
