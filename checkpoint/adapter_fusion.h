// Fuses experts' LoRA adapters, one by one in a checkpoint, into the two tensors per layer in which PEFT
// stores them with transformers 5: gate|up and down of all experts. Gate and up keep an adapter each, as blocks
// of twice the rank. adapter_directory.h reads such tensors.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/adapter_directory.h"

namespace trireme {

// One of the two, with its rank and alpha.
struct FusedModule {
  std::string parameter;  // "model.layers.0.mlp.experts.gate_up_proj", as transformers names it
  std::string a_name, b_name;
  AdapterModule module = {};
  Shape a_shape = {}, b_shape = {};  // [experts · rank, in] and [out, rank · experts]
  std::vector<float> a = {}, b = {};
};

struct FusedAdapter {
  std::vector<FusedModule> adapters;
  std::string config;  // adapter_config.json
};

// For an adapter whose experts are listed one by one.
FusedAdapter FuseExperts(const AdapterDirectory& adapter);

}  // namespace trireme
