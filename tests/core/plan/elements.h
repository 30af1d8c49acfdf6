// Visits the elements of a box one by one: the slow reference for what the plan does with whole boxes.
#pragma once

#include "core/plan/box.h"

namespace trireme {

// Calls visit(index in the tensor) for each element of the box, in row-major order.
template <typename Visit>
void ForEachElement(const Box& box, const Visit& visit) {
  Shape index = box.offset;
  for (int64_t i = 0; i < box.elements(); ++i) {
    visit(index);
    for (size_t dim = index.size(); dim-- > 0;) {
      if (++index[dim] < box.offset[dim] + box.extent[dim]) break;
      index[dim] = box.offset[dim];
    }
  }
}

}  // namespace trireme
