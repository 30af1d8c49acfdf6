// Numbers with their nouns: "1 rank", "2 ranks".
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// For nouns that take an s.
inline std::string Counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace trireme
