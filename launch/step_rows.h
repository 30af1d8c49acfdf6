// Rows of random tokens, for commands that time training steps.
#pragma once

#include <cstdint>
#include <vector>

#include "data/rows.h"

namespace trireme {

struct RowShape {
  int64_t length;
  int64_t documents = 1;  // per row, as equal in length as possible
};

std::vector<Row> RandomRows(int64_t count, const RowShape& shape, int64_t vocabulary, uint64_t seed);

}  // namespace trireme
