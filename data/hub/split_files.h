// Which files are which split where no card says so: the rules of `datasets`, by names of files and folders. Opens no
// file.
#pragma once

#include <string>
#include <vector>

#include "data/hub/dataset_card.h"

namespace trireme {

// The splits and their patterns; none for a repository without files. The first rule that matches any file is the only
// one: data/SPLIT-00000-of-00001.*, folders named after splits, files named after splits, all files as train.
std::vector<SplitPatterns> DefaultSplits(const std::vector<std::string>& files);

// For files of a cache, which may have only some: "2 of the 3 files of data/train-00000-of-00003.parquet". Empty: all
// are there, as far as their names say.
std::string MissingShard(const std::vector<std::string>& files);

}  // namespace trireme
