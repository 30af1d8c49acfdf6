// Products of bfloat16 fractals on the processor's matrix units (AMX), if it has such.
#pragma once

#include "twin/ascendc/include/ascendc/cube_loops.h"

namespace twin::ascendc::loops {

bool HasTiles();
// Sums of pairs of products, in fp32: other bits than the plain loop's, within the same bound. Only if HasTiles().
void MultiplyTiles(float* c, const uint16_t* a, const uint16_t* b, const ProductShape& shape);

}  // namespace twin::ascendc::loops
