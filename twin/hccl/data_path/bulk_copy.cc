#include "twin/hccl/data_path/bulk_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace twin {
namespace {

#if defined(__x86_64__)
constexpr size_t kLine = 64;
constexpr size_t kCopyPage = 4096;
constexpr size_t kPagesAtOnce = 4;

// One line of an aligned target; every x86_64 has SSE2.
inline void StreamLine(std::byte* target, const std::byte* source) {
  const auto* from = reinterpret_cast<const __m128i*>(source);
  auto* to = reinterpret_cast<__m128i*>(target);
  const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
  const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
  _mm_stream_si128(to, a);
  _mm_stream_si128(to + 1, b);
  _mm_stream_si128(to + 2, c);
  _mm_stream_si128(to + 3, d);
}

void StreamLines(std::byte* target, const std::byte* source, size_t bytes) {
  // Interleaving several pages keeps more memory banks and prefetcher streams busy.
  constexpr size_t kGroup = kCopyPage * kPagesAtOnce;
  for (; bytes >= kGroup; bytes -= kGroup, target += kGroup, source += kGroup) {
    for (size_t line = 0; line < kCopyPage; line += kLine) {
      for (size_t page = 0; page < kGroup; page += kCopyPage) StreamLine(target + page + line, source + page + line);
    }
  }
  for (size_t line = 0; line < bytes; line += kLine) StreamLine(target + line, source + line);
  _mm_sfence();  // the release store that signals the others does not order streaming stores
}

void StreamCopy(std::byte* target, const std::byte* source, size_t bytes) {
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(target) % kLine) % kLine;
  if (bytes < head + kLine) {
    std::memcpy(target, source, bytes);
    return;
  }
  std::memcpy(target, source, head);
  const size_t whole = (bytes - head) / kLine * kLine, tail = head + whole;
  StreamLines(target + head, source + head, whole);
  std::memcpy(target + tail, source + tail, bytes - tail);
}
#else
// Elsewhere the hardware detects long runs of stores by itself.
void StreamCopy(std::byte* target, const std::byte* source, size_t bytes) { std::memcpy(target, source, bytes); }
#endif

}  // namespace

void BulkCopy(void* target, const void* source, size_t bytes, size_t operation_bytes) {
  if (bytes == 0) return;
  if (operation_bytes < kStreamFrom) {
    std::memcpy(target, source, bytes);
  } else {
    StreamCopy(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes);
  }
}

}  // namespace twin
