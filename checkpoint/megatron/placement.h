// Where a rank's tensor of the `torch` format belongs in the whole model, both ways: which dim is split over
// tensor-parallel ranks, which experts are this rank's, which half of gate over up its rows are.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/megatron/tensors.h"

namespace trireme {

struct MegatronLayout {
  int64_t tensor = 1, pipeline = 1, expert = 1, expert_tensor = 1;
  bool tensor_extends_expert = false;  // MindSpeed: experts are split over both
  bool latent_attention = false;
};

struct MegatronRank {
  int64_t tensor = 0, pipeline = 0, expert = 0;
};

enum class MegatronSplit { kNone, kRows, kColumns, kHalves };
// Over tensor-parallel ranks, of a name as CommonName gives it.
MegatronSplit SplitOf(const std::string& name, const MegatronLayout& layout);

// The boxes of a whole tensor that a part of it holds, one below the other: the inverse of what PlaceTensor does.
std::vector<Box> PartBoxes(MegatronSplit split, const Shape& shape, int64_t part, int64_t parts);

// Adds the rank's tensor, whose layer is numbered over the model and whose experts by the rank's own numbers.
void PlaceTensor(const std::string& name, const StridedTensor& local, const std::filesystem::path& file,
                 const MegatronLayout& layout, const MegatronRank& rank, int64_t local_experts,
                 MegatronTensors& tensors);

}  // namespace trireme
