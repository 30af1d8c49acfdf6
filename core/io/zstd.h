// Zstandard: a compressed file's content, whole in memory. Several frames one after the other, as `cat a.zst b.zst` and
// parallel compressors make them, are one content; skippable frames are skipped. Checks the digests in the file.
#pragma once

#include <filesystem>
#include <string>

#include "core/io/unpack_guard.h"

namespace trireme {

// Throws InputError for a file that is not zstd, is truncated or is damaged.
std::string ReadZstdFile(const std::filesystem::path& path, UnpackedAs as = UnpackedAs::kWhole);

}  // namespace trireme
