// The data of a run whose rows only name their images, for those who want tokens: nothing is decoded.
#pragma once

#include "data/dataset.h"

namespace trireme {

// As OpenDataSets, but rows have no patches.
DataSets OpenDataSetsWithoutPatches(const Config& config, const DataPlace& place);

}  // namespace trireme
