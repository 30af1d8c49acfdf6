// The digest of a file's bytes that no tensor piece covers: the whole file if it has none. Reads only those
// bytes. Knows no format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace trireme {

struct ByteRange {
  uint64_t begin = 0, end = 0;
};

// CRC-32C of the bytes outside `covered`, in order. Ranges may touch and overlap.
uint32_t DigestOutside(const std::filesystem::path& file, std::vector<ByteRange> covered);

}  // namespace trireme
