// ByteReader: numbers out of a file's bytes, never beyond their end. What the numbers mean is up to the formats.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "images/image.h"

namespace trireme::images {

// What is wrong with a file, without its name: DecodeImage adds that.
struct BadImage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline BadImage Truncated() { return BadImage("the file is truncated"); }

class ByteReader {
 public:
  explicit ByteReader(Bytes bytes, bool big_endian = false) : bytes_(bytes), big_endian_(big_endian) {}

  size_t size() const { return bytes_.size(); }
  uint32_t U8(size_t at) const { return At(at, 1)[0]; }
  uint32_t U16(size_t at) const {
    const Bytes b = At(at, 2);
    return big_endian_ ? Join(0, 0, b[0], b[1]) : Join(0, 0, b[1], b[0]);
  }
  uint32_t U32(size_t at) const {
    const Bytes b = At(at, 4);
    return big_endian_ ? Join(b[0], b[1], b[2], b[3]) : Join(b[3], b[2], b[1], b[0]);
  }
  Bytes At(size_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) throw Truncated();
    return bytes_.subspan(at, count);
  }
  bool Is(size_t at, std::string_view text) const {
    return at <= bytes_.size() && text.size() <= bytes_.size() - at &&
           std::string_view(reinterpret_cast<const char*>(bytes_.data()) + at, text.size()) == text;
  }

 private:
  static uint32_t Join(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return a << 24 | b << 16 | c << 8 | d; }

  Bytes bytes_;
  bool big_endian_;
};

}  // namespace trireme::images
