// NEFTune's noise: what is added to the embeddings of each document in training. It follows from the step's seed, a
// token's identity and the column alone, so that every layout adds the same.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/base/random.h"

namespace trireme {

struct EmbeddingNoise {
  double alpha = 0;
  RandomStream random;
  at::Tensor rows;             // [rows] int64, in host memory: the tokens' identities
  at::Tensor document_tokens;  // [rows] int64, in host memory: the length of each token's document
};

// [rows, columns] fp32 in host memory: uniform within ± alpha / √(document's tokens · columns).
at::Tensor MakeNoise(const EmbeddingNoise& noise, int64_t columns);

}  // namespace trireme
