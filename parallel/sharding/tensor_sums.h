// TensorSums: sums what tensor-parallel ranks have only parts of, on the shares of all buckets at once:
// gradients that are partial over tp, and rows that neighbours share. Packed into one all-reduce.
#pragma once

#include <vector>

#include "core/comm/communicator.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

class TensorSums {
 public:
  // Ranks of `tensor` have the same share of the data group, so their pieces are the same.
  TensorSums(std::vector<Bucket*> buckets, Communicator& tensor);

  // Collective over `tensor`, on share_gradient().
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

  Communicator& tensor_;
  std::vector<Summed> sums_;
  int64_t elements_ = 0;  // of the message
};

}  // namespace trireme
