// Image: pixels in memory, and what a file's header says of them. Knows no file format.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme::images {

using Bytes = std::span<const uint8_t>;

struct Image {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]

  Image() = default;
  Image(int64_t w, int64_t h) : width(w), height(h), rgb(static_cast<size_t>(3 * w * h)) {}
  uint8_t* row(int64_t y) { return rgb.data() + 3 * width * y; }
  const uint8_t* row(int64_t y) const { return rgb.data() + 3 * width * y; }
};

struct ImageHeader {
  std::string_view format = {};
  int64_t width = 0;  // as stored
  int64_t height = 0;
  int orientation = 1;  // EXIF's, 1 to 8; 5 to 8 exchange the sides
  // The file has the end that its format gives a file; otherwise it may be truncated, which only decoding finds out.
  bool surely_whole = false;

  bool sides_exchanged() const { return orientation >= 5; }
  int64_t upright_width() const { return sides_exchanged() ? height : width; }
  int64_t upright_height() const { return sides_exchanged() ? width : height; }
};

}  // namespace trireme::images
