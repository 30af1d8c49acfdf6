// Counter-based random numbers: the same seed, stream and index give the same number on any
// rank and under any layout. Not for cryptography.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme {

class RandomStream {
 public:
  // `name` separates the streams of one seed: a parameter's name, "shuffle".
  RandomStream(uint64_t seed, std::string_view name);

  // A separate stream for each index.
  RandomStream Branch(uint64_t index) const { return RandomStream(Bits(index)); }
  uint64_t Bits(uint64_t index) const;
  double Uniform(uint64_t index) const;  // in [0, 1)
  double Normal(uint64_t index) const;   // mean 0, deviation 1
  // In [0, limit), limit at least 1.
  uint64_t Below(uint64_t limit, uint64_t index) const;

 private:
  explicit RandomStream(uint64_t key) : key_(key) {}

  uint64_t key_;
};

// 0 to count - 1 in an order of the stream's.
std::vector<int64_t> ShuffledOrder(int64_t count, const RandomStream& random);

}  // namespace trireme
