// KeyValueCache: keys and values of the tokens that a rank's layers have processed, layer by layer, for
// generation. For latent attention it stores full heads, not the latent vectors they are projected from.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "ops/attention/cached_attention.h"

namespace trireme {

class KeyValueCache {
 public:
  // Before each pass: how many tokens each row has, and how many it gets.
  void Begin(CachedRows rows) { rows_ = std::move(rows); }

  // CachedAttention for the layer's new tokens.
  at::Tensor Attend(const std::string& layer, const Heads& heads, double scale) {
    return CachedAttention(heads, scale, rows_, layers_[layer]);
  }

 private:
  CachedRows rows_;
  std::map<std::string, KeyValues> layers_;
};

}  // namespace trireme
