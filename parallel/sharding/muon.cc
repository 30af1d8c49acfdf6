#include "parallel/sharding/muon.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "parallel/sharding/shard_tensors.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr double kQuinticA = 3.4445, kQuinticB = -4.7750, kQuinticC = 2.0315;  // as published
constexpr int kNewtonSchulzSteps = 5;
constexpr double kLeastNorm = 1e-7, kRmsOfAdamW = 0.2;

}  // namespace

bool TakesMuon(const Parameter& parameter, const std::string& layer) {
  const std::string& name = parameter.declaration.name;
  if (layer == "embedding" || name.ends_with(".logits.weight") || name.ends_with(".score.weight")) return false;
  if (name.ends_with(".bias")) return false;
  return !parameter.hf.empty() &&
         std::ranges::all_of(parameter.hf, [](const HfTensor& tensor) { return tensor.shape.size() == 2; });
}

at::Tensor Orthogonalised(const at::Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(kLeastNorm);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    x = kQuinticA * x + at::mm(kQuinticB * gram + kQuinticC * at::mm(gram, gram), x);
  }
  const auto larger = static_cast<double>(std::max(matrix.size(0), matrix.size(1)));
  return (tall ? x.t() : x) * (kRmsOfAdamW * std::sqrt(larger));
}

void OrthogonaliseShards(const Bucket& bucket, const at::Tensor& direction, Communicator& stage) {
  std::vector<ShardTensor> matrices = ShardTensorsOf(bucket);
  std::erase_if(matrices, [&](const ShardTensor& tensor) { return !TakesMuon(*tensor.parameter, bucket.layer()); });
  std::vector<at::Tensor> wholes;
  for (const ShardTensor& matrix : matrices) {
    const at::Tensor& whole = wholes.emplace_back(at::zeros(matrix.file->shape, direction.options()));
    for (const ShardPiece& piece : matrix.pieces) {
      if (piece.owned) piece.In(whole).copy_(piece.Of(direction));
    }
    AllReduce(whole, stage);
  }
  for (size_t i = 0; i < matrices.size(); ++i) {
    const bool computes = static_cast<int>(i) % stage.size() == stage.rank();
    wholes[i] = computes ? Orthogonalised(wholes[i]).contiguous() : at::zeros_like(wholes[i]);
  }
  for (size_t i = 0; i < matrices.size(); ++i) {
    AllReduce(wholes[i], stage);
    for (const ShardPiece& piece : matrices[i].pieces) piece.Of(direction).copy_(piece.In(wholes[i]));
  }
}

}  // namespace trireme
