// Where the tensors of a Megatron checkpoint that is to be written belong: which pipeline stage and chunk has a layer,
// which files there are, and whether the sizes divide.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "checkpoint/megatron/written_model.h"

namespace trireme {

struct LayerPlace {
  int64_t stage = 0, chunk = 0;
  int64_t number = 0;  // in the chunk
};

// Of each decoder layer.
std::vector<LayerPlace> PlacesOfLayers(int64_t layers, const MegatronExport& options);

// Those pairs of a tensor- and an expert-parallel rank that Megatron's ranks have.
std::set<std::pair<int64_t, int64_t>> TensorAndExpertRanks(const MegatronLayout& layout);

// Over how many ranks a tensor is split, and how; experts by their own tensor parallelism.
struct WrittenSplit {
  MegatronSplit split = MegatronSplit::kNone;
  int64_t parts = 1;
};
WrittenSplit SplitOf(const WrittenTensor& tensor, const MegatronLayout& layout);

// Refuses a layout that the model does not divide over.
void RefuseOtherSizes(const WrittenModel& model, const MegatronExport& options);

}  // namespace trireme
