// GradientNorm: this rank's part of the norm of all gradients, each element of the model counted on one rank
// only: the one that would also write it into a checkpoint. And the search for what is not finite.
#pragma once

#include <string>
#include <vector>

#include "parallel/sharding/bucket.h"

namespace trireme {

class GradientNorm {
 public:
  explicit GradientNorm(std::vector<Bucket*> buckets) : buckets_(std::move(buckets)) {}

  // Of what this rank owns of share_gradient(). Sums of many elements are kept in fp64.
  double SumOfSquares();

  // "layers.2.mlp.down.weight (nan)": the first parameter in order with such a value in this rank's share;
  // empty where all are finite.
  std::string FirstNotFinite() const;

 private:
  struct Counted {
    Bucket* bucket;
    Piece piece;
  };
  void Plan();

  std::vector<Bucket*> buckets_;
  std::vector<Counted> counted_;
  bool planned_ = false;
};

}  // namespace trireme
