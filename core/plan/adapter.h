// AdapterPlan: a LoRA adapter as plain values: which modules have a low-rank pair, and which are trained
// whole. Files of adapters are checkpoint/'s business, the layers parallel/'s; this is what they agree on.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace trireme {

// Before each tensor's name in an adapter's file.
inline constexpr char kAdapterPrefix[] = "base_model.model.";

struct AdapterModule {  // y += alpha / rank · (x Aᵀ) Bᵀ with A: [rank, in], B: [out, rank]
  int64_t rank = 8;
  double alpha = 8;
  bool operator==(const AdapterModule&) const = default;
};

struct AdapterPlan {
  std::map<std::string, AdapterModule> modules;  // by name, "model.layers.0.self_attn.q_proj"
  std::set<std::string> saved = {};              // modules with a trained copy of their own, "lm_head"
  bool rslora = false;                           // alpha / √rank instead
  double dropout = 0;                            // of the pairs' inputs, while training
  std::set<std::string> targets = {};  // the modules by last words where those take no others, as PEFT does
  bool tied = false;  // where the embedding is saved, the head's weight is the same one, as in the model

  double ScaleOf(const AdapterModule& module) const {
    const auto rank = static_cast<double>(module.rank);
    return module.alpha / (rslora ? std::sqrt(rank) : rank);
  }
};

}  // namespace trireme
