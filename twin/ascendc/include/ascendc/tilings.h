// Tilings that a program computes and a kernel uses unchanged: fields as documented, without the functions
// that fill them. The host's functions read only shapes.
#pragma once

#include <cstdint>

namespace AscendC {
namespace tiling {

struct SoftMaxTiling {
  uint32_t srcM = 0, srcK = 0, srcSize = 0;
  uint32_t outMaxM = 0, outMaxK = 0, outMaxSize = 0;
  uint32_t splitM = 0, splitK = 0, splitSize = 0;
  uint32_t reduceM = 0, reduceK = 0, reduceSize = 0;
  uint32_t rangeM = 0, tailM = 0, tailSplitSize = 0, tailReduceSize = 0;
};
struct TopkTiling {
  int32_t tmpLocalSize = 0, allDataSize = 0, innerDataSize = 0, sortRepeat = 0;
};
struct UnPadTiling {
  uint32_t srcHeight = 0, srcWidth = 0;
};

}  // namespace tiling
using tiling::SoftMaxTiling;
using tiling::TopkTiling;
using tiling::UnPadTiling;
}  // namespace AscendC
using AscendC::tiling::SoftMaxTiling;
using AscendC::tiling::TopkTiling;
using AscendC::tiling::UnPadTiling;
