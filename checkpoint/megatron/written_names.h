// WrittenNames: the names that the layer specifications of megatron-core have for tensors of a checkpoint that is to be
// written: its own layers (local), and Transformer Engine's, which hold the norm before a linear module in that module.
// The inverse of CommonName.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/megatron/written_model.h"

namespace trireme {

// "decoder.layers.3." or "mtp.layers.0.transformer_layer." and what follows; of other names the first is empty.
struct LayerName {
  std::string layer, rest;
};
LayerName SplitLayer(const std::string& name);

// With Transformer Engine.
std::string FusedName(const std::string& name, const WrittenModel& model);

// What an expert's tensor is called in the file of a rank: "….local_experts.3.linear_fc1.weight", or with Transformer
// Engine's grouped GEMM "….linear_fc1.weight3". Others keep their name.
std::string RankExpertName(const std::string& name, int64_t local_number, bool transformer_engine);

// The modules that save an `_extra_state`, of a tensor's name in a file: nothing if it is of none.
std::string ModuleWithState(const std::string& name);

// In a distributed checkpoint: megatron-core's own layers keep some norms under Transformer Engine's names, others not,
// so that there may be two.
std::vector<std::string> DistNames(const std::string& name, const WrittenModel& model);

}  // namespace trireme
