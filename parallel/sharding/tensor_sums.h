// TensorSums: sums what tensor-parallel ranks have only parts of, on the shares of all buckets at once:
// gradients that are partial over tp (of experts: over etp), and rows that neighbours share. Packed into one
// all-reduce.
#pragma once

#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

struct SumAxis {
  GridKind grid = GridKind::kDense;  // whose buckets are meant
  std::string name;                  // "tp"
  int size = 1;
  Communicator& group;  // ranks that follow each other on the axis follow each other in it; it may join more
};

class TensorSums {
 public:
  // Ranks of the group have the same share of the data group, so their pieces are the same.
  TensorSums(const std::vector<Bucket*>& buckets, const SumAxis& axis);

  // Collective over the group, on share_gradient().
  void Run();

 private:
  struct Summed {
    Bucket* bucket;
    Piece piece;
    int places = 1;  // neighbourhoods, each with a sum of its own
    int place = 0;   // this rank's
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
