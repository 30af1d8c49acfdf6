// From shards of parameters to boxes of the Hugging Face tensors that hold their elements: the only step
// between what a rank has in memory, under any layout, and files that know no layout. Numbers only: no
// memory is touched, no file is opened.
#pragma once

#include <vector>

#include "core/plan/parameter.h"
#include "core/plan/shard.h"

namespace trireme {

// A box of a file's tensor that a shard holds. Element i of the box is shard.data[offset + sum of i *
// strides].
struct FilePiece {
  const HfTensor* tensor = nullptr;
  Box box;  // in the file's tensor, with that tensor's number of dims
  int64_t offset = 0;
  Shape strides;
  int replica = 0;  // 0: this rank writes it
};

// Every element of the shard is in exactly one piece. `parameter` outlives them.
std::vector<FilePiece> FilePieces(const Parameter& parameter, const Shard& shard);

}  // namespace trireme
