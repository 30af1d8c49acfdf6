// Gzip: a compressed file's content, whole in memory. Several members one after the other, as `cat a.gz b.gz` makes
// them, are one content. Checks the digests in the file.
#pragma once

#include <filesystem>
#include <string>

#include "core/io/unpack_guard.h"

namespace trireme {

// Throws InputError for a file that is not gzip, is truncated or is damaged.
std::string ReadGzipFile(const std::filesystem::path& path, UnpackedAs as = UnpackedAs::kWhole);

}  // namespace trireme
