#include "core/io/crc32.h"

#include <isa-l/crc.h>

namespace trireme {

uint32_t Crc32(const void* data, size_t bytes, uint32_t before) {
  return bytes == 0 ? before : crc32_gzip_refl(before, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace trireme
