// How the records of a zip begin, for its reader and its writer.
#pragma once

#include <cstdint>

namespace trireme {

inline constexpr uint32_t kZipLocalHeader = 0x04034b50, kZipEntry = 0x02014b50, kZipEnd = 0x06054b50;
inline constexpr uint32_t kZipEnd64 = 0x06064b50, kZipLocator64 = 0x07064b50;
inline constexpr uint64_t kZipLocalBytes = 30;  // of a local header, without its name and extra field

}  // namespace trireme
