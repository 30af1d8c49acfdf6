#include "core/base/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

// A bijection of 64 bits whose every output bit depends on every input bit (the finaliser of SplitMix64).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

double ToUniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace

RandomStream::RandomStream(uint64_t seed, std::string_view name) : key_(Mix(seed + kGolden)) {
  for (const char letter : name) key_ = Mix((key_ ^ static_cast<unsigned char>(letter)) + kGolden);
}

uint64_t RandomStream::Bits(uint64_t index) const { return Mix(Mix(index * kGolden + key_) ^ key_); }

double RandomStream::Uniform(uint64_t index) const { return ToUniform(Bits(index)); }

double RandomStream::Normal(uint64_t index) const {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform(2 * index)));
  return radius * std::cos(2.0 * std::numbers::pi * Uniform(2 * index + 1));
}

uint64_t RandomStream::Below(uint64_t limit, uint64_t index) const {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Bits(index)) * limit) >> 64);
}

std::vector<int64_t> ShuffledOrder(int64_t count, const RandomStream& random) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(order[i], order[random.Below(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(i))]);
  }
  return order;
}

}  // namespace trireme
