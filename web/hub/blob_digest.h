// Digests of whole files, as hubs name their contents. No torch.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

// In lower-case hexadecimal digits. 64 digits: sha256 of the bytes; 40: sha1 of git's blob, which begins with its size.
std::string BlobDigest(const std::filesystem::path& file, size_t digits);
// The same of a file that would have these bytes.
std::string TextDigest(std::string_view bytes, size_t digits);

}  // namespace trireme
