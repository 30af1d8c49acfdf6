#include "ops/attention/ascendc.h"

#include <algorithm>

#include "aclrtlaunch_attention_merge.h"
#include "aclrtlaunch_attention_sinks.h"

namespace trireme::ascendc {

void AttentionMerge(const KernelPlace& place, Element element, float* sum, float* lse, const void* part,
                    const float* part_lse, const MergeShape& s) {
  if (s.rows == 0 || s.columns == 0) return;
  const Tiling tiling = TileRows(s.rows, s.columns, 20, place);
  const uint64_t run_rows = s.run_rows == 0 ? s.rows : s.run_rows;
  const uint64_t run_stride = s.run_rows == 0 ? s.rows : s.run_stride;
  Launched(ACLRT_LAUNCH_KERNEL(attention_merge)(tiling.blocks, place.stream, sum, lse, Address(part), Address(part_lse),
                                                static_cast<uint32_t>(element), Size32(s.rows, "rows"),
                                                Size32(s.columns, "columns"), tiling.tile, Size32(run_rows, "rows"),
                                                Size32(run_stride, "rows")),
           "attention_merge");
}

namespace {

constexpr uint64_t kSinkBytes = 16;  // of a core's buffer per element: two tiles in, two out, and in fp32

uint64_t RowsAtOnce(const SinkShape& s) {
  const uint64_t fitting = (kBufferBytes - kSmallBuffers) / (s.columns * kSinkBytes);
  return std::min(kSinksAgain, fitting / 8 * 8);
}

}  // namespace

const char* WhyNotSinks(Element element, const SinkShape& s) {
  if (s.columns * BytesOf(element) % 32 != 0) return "a head's output is no multiple of 32 bytes";
  return RowsAtOnce(s) == 0 ? "heads larger than a core's buffer takes" : nullptr;
}

void AttentionSinks(const KernelPlace& place, Element element, void* output, float* lse, const float* sinks,
                    const SinkShape& s) {
  if (s.rows == 0 || s.columns == 0) return;
  const uint64_t at_once = RowsAtOnce(s);
  Launched(ACLRT_LAUNCH_KERNEL(attention_sinks)(
               TileRows((s.rows + at_once - 1) / at_once, 1, 4, place).blocks, place.stream, output, lse,
               Address(sinks), static_cast<uint32_t>(element), Size32(s.rows, "rows"), Size32(s.columns, "columns"),
               Size32(s.heads, "heads"), Size32(at_once, "rows")),
           "attention_sinks");
}

}  // namespace trireme::ascendc
