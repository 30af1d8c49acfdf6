// The card of a data set: what the YAML at the beginning of README.md says about its subsets and their files. Knows no
// files.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct SplitPatterns {
  std::string split;
  std::vector<std::string> patterns;
  bool partial = false;  // not all of its rows are there
};

struct CardSubset {
  std::string name;
  std::string folder = {};  // data_dir
  bool is_default = false;
  std::optional<std::vector<SplitPatterns>> splits = std::nullopt;  // nothing: by the names of files
  std::string refused = {};  // what of it is not read here: an error once the subset is wanted
};

// Of README.md, or with `whole` of a file that is nothing but YAML. None: it names none. An input error, which begins
// with `who`, for a card that is broken.
std::vector<CardSubset> ReadCard(const std::string& text, const std::string& who, bool whole = false);

}  // namespace trireme
