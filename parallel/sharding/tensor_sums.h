// TensorSums: sums the partial gradients of tensor-parallel ranks, on the shards of all buckets at once:
// gradients that are partial over tp (for experts: over etp), and rows that adjacent ranks shard. Packed into
// one all-reduce.
#pragma once

#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

struct SumAxis {
  GridKind grid = GridKind::kDense;  // grid of the buckets
  std::string name;                  // "tp"
  int size = 1;
  Communicator& group;  // consecutive ranks of the axis are consecutive in it; it may contain more
};

class TensorSums {
 public:
  // Ranks of the group have the same shard of the data-parallel group, so their pieces are the same.
  TensorSums(const std::vector<Bucket*>& buckets, const SumAxis& axis);

  // Collective over the group, on shard_gradient().
  void Run();

 private:
  struct Summed {
    Bucket* bucket;
    Piece piece;
    int positions = 1;  // number of neighbourhoods, each with its own sum
    int place = 0;      // this rank's
  };

  void AddPart(Bucket& bucket, const FlatPart& part);
  void Add(Bucket& bucket, const std::vector<Piece>& pieces, int neighbours);

  const std::string axis_;
  const int axis_size_;
  Communicator& group_;
  std::vector<Summed> sums_;
  int64_t elements_ = 0;  // of the message
};

}  // namespace trireme
