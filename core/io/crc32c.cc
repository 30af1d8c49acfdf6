// Uses the processor's CRC instruction if available, three streams at a time to hide its latency; otherwise
// eight tables, eight bytes at a time.
#include "core/io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace trireme {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed

using Table = std::array<uint32_t, 256>;

constexpr std::array<Table, 8> MakeTables() {
  std::array<Table, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t row = 1; row < 8; ++row) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[row - 1][byte];
      tables[row][byte] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = MakeTables();

uint64_t Load64(const unsigned char* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

#if defined(__x86_64__)
#define TRIREME_CRC32C_TARGET __attribute__((target("sse4.2")))
bool HasInstruction() { return __builtin_cpu_supports("sse4.2"); }
TRIREME_CRC32C_TARGET inline uint64_t Word(uint64_t crc, uint64_t word) {
  return __builtin_ia32_crc32di(crc, word);
}
TRIREME_CRC32C_TARGET inline uint32_t Byte(uint32_t crc, unsigned char byte) {
  return __builtin_ia32_crc32qi(crc, byte);
}
#elif defined(__aarch64__)
#define TRIREME_CRC32C_TARGET __attribute__((target("+crc")))
bool HasInstruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
TRIREME_CRC32C_TARGET inline uint64_t Word(uint64_t crc, uint64_t word) {
  return __crc32cd(static_cast<uint32_t>(crc), word);
}
TRIREME_CRC32C_TARGET inline uint32_t Byte(uint32_t crc, unsigned char byte) { return __crc32cb(crc, byte); }
#endif

#if defined(TRIREME_CRC32C_TARGET)
constexpr size_t kStream = 4096;  // bytes of each of three streams

// How the checksum changes when kStream zero bytes follow: a linear map, per byte of the checksum.
std::array<Table, 4> MakeShift() {
  std::array<uint32_t, 32> images{};  // of every single bit
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kStream; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
    images[bit] = crc;
  }
  std::array<Table, 4> shift{};
  for (size_t byte = 0; byte < 4; ++byte) {
    for (size_t value = 0; value < 256; ++value) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) shift[byte][value] ^= images[8 * byte + bit];
      }
    }
  }
  return shift;
}

uint32_t BehindStream(const std::array<Table, 4>& shift, uint32_t crc) {
  return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^ shift[3][crc >> 24];
}

TRIREME_CRC32C_TARGET uint32_t FastCrc32c(const unsigned char* next, size_t bytes, uint32_t crc) {
  static const std::array<Table, 4> shift = MakeShift();
  while (bytes >= 3 * kStream) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < kStream; i += 8) {
      a = Word(a, Load64(next + i));
      b = Word(b, Load64(next + kStream + i));
      c = Word(c, Load64(next + 2 * kStream + i));
    }
    const uint32_t ab = BehindStream(shift, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    crc = BehindStream(shift, ab) ^ static_cast<uint32_t>(c);
    next += 3 * kStream;
    bytes -= 3 * kStream;
  }
  uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, next += 8) wide = Word(wide, Load64(next));
  crc = static_cast<uint32_t>(wide);
  for (; bytes > 0; --bytes, ++next) crc = Byte(crc, *next);
  return crc;
}
#endif

}  // namespace

uint32_t PlainCrc32c(const void* data, size_t bytes, uint32_t before) {
  const auto* next = static_cast<const unsigned char*>(data);
  uint32_t crc = ~before;
  for (; bytes >= 8; bytes -= 8, next += 8) {
    const uint64_t word = Load64(next) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 0xff];
  }
  for (; bytes > 0; --bytes, ++next) crc = (crc >> 8) ^ kTables[0][(crc ^ *next) & 0xff];
  return ~crc;
}

uint32_t Crc32c(const void* data, size_t bytes, uint32_t before) {
#if defined(TRIREME_CRC32C_TARGET)
  static const bool has_instruction = HasInstruction();
  if (has_instruction) return ~FastCrc32c(static_cast<const unsigned char*>(data), bytes, ~before);
#endif
  return PlainCrc32c(data, bytes, before);
}

}  // namespace trireme
