// xxHash's XXH3, 128 bits.
#include "core/io/digest.h"

#include <xxhash.h>

#include <cstdint>
#include <new>

namespace trireme {

Digest::Digest() : state_(XXH3_createState()) {
  if (state_ == nullptr || XXH3_128bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
}

void Digest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Digest& Digest::Add(std::string_view bytes) {
  const uint64_t length = bytes.size();
  XXH3_128bits_update(state_.get(), &length, sizeof(length));
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  return *this;
}

std::string Digest::Hex() const {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state_.get()));
  std::string text;
  for (const unsigned char byte : digest.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace trireme
