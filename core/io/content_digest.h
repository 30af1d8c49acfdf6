// ContentDigest: 256 bits of SHA-256 that stand for contents where someone may try to make two of them look alike, as
// in a cache that strangers share. Names in a cache of one's own need less: digest.h.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace trireme {

using ContentDigest = std::array<int64_t, 4>;

// Of the parts one after another; the length of each counts, too.
ContentDigest DigestOfContent(std::initializer_list<std::string_view> parts);

}  // namespace trireme
