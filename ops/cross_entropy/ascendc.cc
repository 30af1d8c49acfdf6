#include "ops/cross_entropy/ascendc.h"

#include "aclrtlaunch_logit_gradient.h"
#include "aclrtlaunch_logit_statistics.h"

namespace trireme::ascendc {

void LogitStatistics(const KernelPlace& place, Element element, const void* logits, const int64_t* labels,
                     const LogitShape& s, float* largest, float* sum, float* picked) {
  if (s.rows == 0) return;
  const Tiling tiling = TileRows(s.rows, s.stride, 4 * BytesOf(element) + 8, place);
  Launched(ACLRT_LAUNCH_KERNEL(logit_statistics)(tiling.blocks, place.stream, Address(logits), Address(labels), largest,
                                                 sum, picked, static_cast<uint32_t>(element), Size32(s.rows, "rows"),
                                                 Size32(s.columns, "columns"), Size32(s.stride, "columns"), tiling.tile,
                                                 Size32(s.first_token, "token")),
           "logit_statistics");
}

void LogitGradient(const KernelPlace& place, Element element, void* logits, const int64_t* labels, const LogitShape& s,
                   const float* log_sum_exp, float scale) {
  if (s.rows == 0) return;
  const Tiling tiling = TilePieces(s.rows, s.stride, 4 * BytesOf(element) + 4, place);
  Launched(ACLRT_LAUNCH_KERNEL(logit_gradient)(
               tiling.blocks, place.stream, logits, Address(labels), Address(log_sum_exp),
               static_cast<uint32_t>(element), Size32(s.rows, "rows"), Size32(s.columns, "columns"),
               Size32(s.stride, "columns"), tiling.tile, Size32(s.first_token, "token"), scale),
           "logit_gradient");
}

}  // namespace trireme::ascendc
