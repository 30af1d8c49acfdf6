// Packs a weight while its values are read: piece by piece, so that no matrix is ever whole in memory unless it is
// small. Each matrix of the files is packed for itself, and from all of its values, whatever part of it the rank has.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "parallel/layers/weights.h"

namespace trireme {

// Reads a box of the whole parameter into a tensor of its shape.
using BoxReader = std::function<void(const Box& box, const at::Tensor& local)>;

// Values are rounded to the type of the computation first, as they would be without packing.
void PackValues(const Weights::Entry& entry, const BoxReader& read);

// Takes codes and scales of a source that has the matrices in 4 bits; false: it has not. Refuses those of another kind.
bool TakePacked(const Weights::Entry& entry, const TensorSource& source);

// The mean of scales, the same for any number of threads.
float MeanOfScales(std::vector<float>& scales);

}  // namespace trireme
