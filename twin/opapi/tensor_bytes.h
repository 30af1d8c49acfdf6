// How large the tensors of an operator's call are. A program creates them on the thread that then prepares
// the call: what was created since the last call belongs to this one.
#pragma once

#include <cstdint>

namespace twin {

void NoteTensorBytes(uint64_t bytes);  // of a tensor that this thread creates
uint64_t TakeLargestTensorBytes();     // of the largest since the last time; forgets it

}  // namespace twin
