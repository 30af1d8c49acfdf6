// By ISA-L, which takes the best instructions that the processor has.
#include "core/io/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace trireme {
namespace {

// ISA-L reads one stream, which leaves memory idle between its lines: the next part is asked for while one is
// summed. Also keeps lengths within ISA-L's int.
constexpr size_t kPart = 8192;
constexpr size_t kLine = 64;

}  // namespace

uint32_t Crc32c(const void* data, size_t bytes, uint32_t before) {
  auto* next = static_cast<unsigned char*>(const_cast<void*>(data));  // only read
  uint32_t crc = ~before;
  while (bytes > 0) {
    const size_t part = std::min(bytes, kPart), following = std::min(bytes - part, kPart);
    for (size_t at = 0; at < following; at += kLine) __builtin_prefetch(next + part + at);
    crc = crc32_iscsi(next, static_cast<int>(part), crc);
    next += part;
    bytes -= part;
  }
  return ~crc;
}

}  // namespace trireme
