// Whole small text files. Large files have readers of their own.
#pragma once

#include <string>

namespace trireme {

// An input error where it cannot be read.
std::string ReadTextFile(const std::string& path);

}  // namespace trireme
