// Global memory filled by a block, and columns taken off the right of rows.
#pragma once

#include <algorithm>

#include "ascendc/lanes.h"
#include "ascendc/tilings.h"

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

// Copied out on PIPE_MTE3, like any result: who reads it waits for that.
template <typename T>
void InitGlobalMemory(const GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const std::type_identity_t<T> value,
                      Where where = Where::Here()) {
  TWIN_TELL(WriteGlobal(PIPE_MTE3, gmWorkspaceAddr.data(), size * sizeof(T), gmWorkspaceAddr.from(),
                        gmWorkspaceAddr.to(), policy::At("InitGlobalMemory", where)));
  std::fill(gmWorkspaceAddr.data(), gmWorkspaceAddr.data() + size, value);
}
template <typename T>
void InitOutput(const GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const std::type_identity_t<T> value = T{},
                Where where = Where::Here()) {
  InitGlobalMemory(gmWorkspaceAddr, size, value, where);
}

struct UnPadParams {
  uint16_t leftPad = 0, rightPad = 0;
};
// Rows of srcWidth without their last rightPad elements, one after another.
template <typename T>
void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, const UnPadParams& params, const UnPadTiling& tiling,
           Where where = Where::Here()) {
  const uint32_t width = tiling.srcWidth, kept = width - std::min<uint32_t>(width, params.rightPad);
  policy::Wants(params.leftPad == 0, "leftPad is not supported, by a device neither", "UnPad", where);
  policy::Wants(width * sizeof(T) % 32 == 0, "a row of the source is a multiple of 32 bytes", "UnPad", where);
  policy::VectorIn(src, uint64_t{tiling.srcHeight} * width, "UnPad", where);
  policy::VectorOut(dst, uint64_t{tiling.srcHeight} * kept, "UnPad", where);
  for (uint32_t row = 0; row < tiling.srcHeight; ++row) {
    std::copy_n(src.data() + uint64_t{row} * width, kept, dst.data() + uint64_t{row} * kept);
  }
}
template <typename T>
void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, const UnPadParams& params,
           const LocalTensor<uint8_t>& sharedTmpBuffer, const UnPadTiling& tiling, Where where = Where::Here()) {
  UnPad(dst, src, params, tiling, where);
}

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
