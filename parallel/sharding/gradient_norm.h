// GradientNorm: this rank's part of the norm of all gradients; each element of the model counts on one rank
// only, the one that would also write it into a checkpoint. Also finds gradients that are not finite.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

// From each rank's sum of squares, one element, to the norm over all ranks, the same on each. Collective; the host
// waits.
double NormOverRanks(const at::Tensor& squares, Communicator& world);
// What gradients of this norm are multiplied by, as torch.nn.utils.clip_grad_norm_ does it; clip 0: never.
double ClipScale(double norm, double clip);

class GradientNorm {
 public:
  explicit GradientNorm(std::vector<Bucket*> buckets) : buckets_(std::move(buckets)) {}

  // Over the part of shard_gradient() that this rank owns: one element, on `device`. Sums of many elements
  // are accumulated in fp64; on npu in fp32, block by block.
  at::Tensor SumOfSquares(at::Device device);
  at::Tensor SumOfSquares(const Bucket& bucket, at::Device device);  // of this one alone

  // "layers.2.mlp.down.weight (nan)": the first parameter in order with a non-finite value in this rank's
  // shard; empty if all are finite.
  std::string FirstNotFinite() const;

 private:
  const std::vector<Piece>& PiecesOf(const Bucket& bucket);
  void AddValues(const Bucket& bucket, std::vector<at::Tensor>& values);

  std::vector<Bucket*> buckets_;
  std::map<const Bucket*, std::vector<Piece>> pieces_;  // made when first asked for
};

}  // namespace trireme
