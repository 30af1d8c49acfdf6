// The manual of RUN.yaml: every key with its type, default and the comment of config.proto.
#pragma once

#include <string>

namespace trireme {

std::string ConfigHelp();

// The words broken into lines of at most `width` columns, each prefixed with `indent`.
std::string Wrapped(const std::string& words, const std::string& indent, size_t width = 100);

}  // namespace trireme
