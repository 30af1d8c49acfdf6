// UnitRows: a matrix whose rows are scaled to length 1 before they are used, as Baichuan2's head is, and the way of a
// gradient back through that. Row by row, so a matrix that is split by rows needs no other rank.
#pragma once

#include "core/tensor/weight.h"

namespace trireme {

class UnitRows {
 public:
  // trained: room for the gradient of the scaled rows is there as well.
  UnitRows(const Weight& weight, bool trained);

  // The scaled rows; operators accumulate their gradient in it.
  const Weight& unit() const { return unit_; }
  // Adds the gradient of the matrix, d w = (d u - u (u · d u)) / |w|. Nothing if no operator left a gradient.
  void AddGradient() const;

 private:
  const Weight& weight_;
  Weight unit_;
};

}  // namespace trireme
