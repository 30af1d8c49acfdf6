// Digest: 128 bits that tell contents apart, for names in a cache. Not for cryptography.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace trireme {

class Digest {
 public:
  Digest();

  // The length counts too, so that "ab" and "c" differ from "a" and "bc".
  Digest& Add(std::string_view bytes);
  Digest& Add(std::span<const std::byte> bytes) {
    return Add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::string Hex() const;  // 32 digits

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace trireme
