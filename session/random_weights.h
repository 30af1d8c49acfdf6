// Initial weights where none are loaded: drawn by the parameter's name and the element's
// global position, so that every layout starts from the same model.
#pragma once

#include <cstdint>

#include "parallel/layers/weights.h"

namespace trireme {

void FillRandomWeights(const std::vector<Weights::Entry*>& entries, int rank, uint64_t seed);

}  // namespace trireme
