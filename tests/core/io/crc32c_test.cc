// CRC-32C against published values, and against the definition, bit by bit.
#include "core/io/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace trireme {
namespace {

TEST(Crc32c, PublishedValues) {  // RFC 3720, B.4
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u);
  const std::vector<unsigned char> zeros(32, 0), ones(32, 0xff);
  EXPECT_EQ(Crc32c(zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(ones.data(), 32), 0x62a8ab43u);
}

uint32_t ByDefinition(const unsigned char* data, size_t bytes) {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

TEST(Crc32c, IsTheDefinitionsAtAnyLengthAndInAnyParts) {
  std::mt19937 random(1);
  std::vector<unsigned char> data(70'000);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  for (const size_t bytes : {0u, 1u, 7u, 8u, 63u, 4095u, 8191u, 8192u, 8193u, 16'384u, 24'577u, 70'000u}) {
    const uint32_t wanted = ByDefinition(data.data(), bytes);
    EXPECT_EQ(Crc32c(data.data(), bytes), wanted) << bytes;
    const size_t cut = bytes > 0 ? random() % bytes : 0;
    EXPECT_EQ(Crc32c(data.data() + cut, bytes - cut, Crc32c(data.data(), cut)), wanted) << bytes << " at " << cut;
  }
}

}  // namespace
}  // namespace trireme
