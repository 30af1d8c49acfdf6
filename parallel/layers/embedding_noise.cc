#include "parallel/layers/embedding_noise.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>

namespace trireme {

at::Tensor MakeNoise(const EmbeddingNoise& noise, int64_t columns) {
  const at::Tensor rows = noise.rows.contiguous(), lengths = noise.document_tokens.contiguous();
  const at::Tensor made = at::empty({rows.numel(), columns}, at::kFloat);
  at::parallel_for(0, rows.numel(), /*grain_size=*/16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const RandomStream random = noise.random.Branch(static_cast<uint64_t>(rows.data_ptr<int64_t>()[row]));
      const auto elements = static_cast<double>(lengths.data_ptr<int64_t>()[row] * columns);
      const double bound = noise.alpha / std::sqrt(elements);
      float* out = made.data_ptr<float>() + row * columns;
      for (int64_t column = 0; column < columns; ++column) {
        out[column] = static_cast<float>((2 * random.Uniform(static_cast<uint64_t>(column)) - 1) * bound);
      }
    }
  });
  return made;
}

}  // namespace trireme
