// The hub's own conversion of a data set to Parquet, on a branch beside it: SUBSET/SPLIT/0000.parquet, or
// SUBSET/partial-SPLIT/… where it converted only a part. Opens no file.
#pragma once

#include <string>
#include <vector>

#include "data/hub/dataset_card.h"

namespace trireme {

inline constexpr char kParquetBranch[] = "refs/convert/parquet";

// Of the files of that branch. None: there is no conversion.
std::vector<CardSubset> ExportedSubsets(const std::vector<std::string>& files);

// Whether the rows come from a program in the repository, which is never run: NAME.py.
bool NeedsCode(const std::vector<std::string>& files, const std::string& name);

}  // namespace trireme
