// AdapterPlan: the LoRA adapters of a run or of a file as plain values: which modules have one, and which are
// trained in full. Adapter files belong to checkpoint/, the layers to parallel/; this is what they share.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace trireme {

// Prefix of each tensor's name in an adapter file.
inline constexpr char kAdapterPrefix[] = "base_model.model.";

struct AdapterModule {  // y += alpha / rank · (x Aᵀ) Bᵀ with A: [rank, in], B: [out, rank]
  int64_t rank = 8;
  double alpha = 8;
  bool operator==(const AdapterModule&) const = default;
};

struct AdapterPlan {
  std::map<std::string, AdapterModule> modules;  // by name, "model.layers.0.self_attn.q_proj"
  std::set<std::string> saved = {};              // modules trained in full (modules_to_save), "lm_head"
  bool rslora = false;                           // alpha / √rank instead
  double dropout = 0;                            // of the adapters' inputs, during training
  std::set<std::string> targets = {};            // the modules by last name component where unambiguous, as PEFT does
  bool tied = false;  // if the embedding is in `saved`, the head shares its weight, as in the model
  // How adapters start if that takes something away from the weights beside them, as PEFT's init_lora_weights says it:
  // "pissa", "pissa_niter_4", "olora"; empty: it does not.
  std::string init = {};
  bool dora = false;  // each module has a magnitude for every output, too

  double ScaleOf(const AdapterModule& module) const {
    const auto rank = static_cast<double>(module.rank);
    return module.alpha / (rslora ? std::sqrt(rank) : rank);
  }
};

}  // namespace trireme
