// Digest: 128 bits that identify contents, for names in a cache. Not for cryptography.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

class Digest {
 public:
  // The length is included, so that "ab" and "c" differ from "a" and "bc".
  Digest& Add(std::string_view bytes);
  Digest& Add(std::span<const std::byte> bytes) {
    return Add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::string Hex() const;  // 32 digits

 private:
  void AddWord(uint64_t word);

  uint64_t a_ = 0x243f6a8885a308d3ULL, b_ = 0x13198a2e03707344ULL;
};

}  // namespace trireme
