// Bulk conversion of halves to floats and back, with the processor's own instruction if it has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twin::ascendc {

void WidenHalves(float* dst, const uint16_t* src, size_t n);
// To nearest, ties to even; a NaN stays one.
void NarrowHalves(uint16_t* dst, const float* src, size_t n);

}  // namespace twin::ascendc
