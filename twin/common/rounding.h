// Sizes and offsets rounded to a multiple of a grain: pages, slots, allocation units.
#pragma once

#include <cstddef>

namespace twin {

constexpr size_t RoundUp(size_t value, size_t grain) { return (value + grain - 1) / grain * grain; }
constexpr size_t RoundDown(size_t value, size_t grain) { return value / grain * grain; }

}  // namespace twin
