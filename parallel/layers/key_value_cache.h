// KeyValueCache: keys and values of the tokens that a rank's layers have seen, layer by layer, for
// generation. Of latent attention it keeps whole heads, not the latent vectors they come from.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "ops/cached_attention.h"

namespace trireme {

class KeyValueCache {
 public:
  // Before each pass: what the rows have, and get.
  void Begin(CachedRows rows) { rows_ = std::move(rows); }

  // CachedAttention of the layer's new heads.
  at::Tensor Attend(const std::string& layer, const Heads& heads, double scale) {
    return CachedAttention(heads, scale, rows_, layers_[layer]);
  }

 private:
  CachedRows rows_;
  std::map<std::string, KeyValues> layers_;
};

}  // namespace trireme
