#include "core/io/digest.h"

#include <cstring>

namespace trireme {
namespace {

// Both halves of a 128-bit product, folded: every bit of the operands affects every bit of the result.
uint64_t Fold(uint64_t x, uint64_t y) {
  const unsigned __int128 product = static_cast<unsigned __int128>(x) * y;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

void Digest::AddWord(uint64_t word) {
  a_ = Fold(a_ ^ word, 0x9e3779b97f4a7c15ULL) + 0xa4093822299f31d0ULL;
  b_ = Fold(b_ + word, 0xc2b2ae3d27d4eb4fULL) ^ (b_ >> 29);
}

Digest& Digest::Add(std::string_view bytes) {
  AddWord(bytes.size());
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    AddWord(word);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  AddWord(rest);
  return *this;
}

std::string Digest::Hex() const {
  Digest last = *this;
  for (int i = 0; i < 4; ++i) last.AddWord(last.a_ ^ last.b_);
  std::string text;
  for (const uint64_t half : {last.a_, last.b_}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  }
  return text;
}

}  // namespace trireme
