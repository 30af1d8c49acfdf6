// Which files of a repository a name asks for: its subsets by the card, or by the names of files, and of these a split,
// in the order in which `datasets` reads them. Opens no file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/hub/dataset_card.h"
#include "data/hub/hub_set_name.h"

namespace trireme {

struct Repository {
  std::string who;                 // in errors: "https://huggingface.co/datasets/own/set"
  std::vector<std::string> files;  // all of them
  std::vector<CardSubset> card;
  // Whether records of this file can be read here, by its name.
  std::function<bool(const std::string&)> is_readable;
};

// Files of README.md and the like that say what ReadCard wants, as far as the repository has them; the last that names
// subsets counts.
std::vector<std::string> CardFiles(const std::vector<std::string>& files);

// An input error for a subset or a split that it does not have (which lists those that it has), and for files that
// cannot be read.
std::vector<std::string> FilesAskedFor(const Repository& repository, const HubSetName& name);

}  // namespace trireme
