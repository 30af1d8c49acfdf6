// Muon: updates of matrices whose direction is the orthogonalised momentum of the whole matrix, as files have it: each
// rank of a pipeline stage contributes its elements, one rank computes, all take their elements of the result. So every
// layout gives the same. Which parameters these are is decided here; all others are AdamW's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/sharding/bucket.h"

namespace trireme {

// Matrices, but those of the embedding and of the head.
bool TakesMuon(const Parameter& parameter, const std::string& layer);

// Five steps of Newton and Schulz towards the nearest orthogonal matrix, in fp32, times 0.2 √(the larger size): updates
// then have the size of AdamW's, and the same learning rate serves both. matrix: [rows, columns] fp32.
at::Tensor Orthogonalised(const at::Tensor& matrix);

// direction: [shard] fp32 of a bucket: the momentum of its matrices, replaced by the direction of their updates.
// Collective over the ranks of the pipeline stage, all of which have the same buckets.
void OrthogonaliseShards(const Bucket& bucket, const at::Tensor& direction, Communicator& stage);

}  // namespace trireme
