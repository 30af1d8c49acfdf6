#include "images/exif.h"

#include <utility>

#include "images/byte_reader.h"

namespace trireme::images {
namespace {

constexpr uint32_t kOrientationTag = 0x0112, kShort = 3, kLong = 4;

int OrientationIn(Bytes tiff) {
  const bool big_endian = ByteReader(tiff).Is(0, std::string_view("MM\0*", 4));
  const ByteReader reader(tiff, big_endian);
  if (!big_endian && !reader.Is(0, std::string_view("II*\0", 4))) return 1;
  const size_t directory = reader.U32(4), entries = reader.U16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (reader.U16(entry) != kOrientationTag) continue;
    const uint32_t type = reader.U16(entry + 2);
    const uint32_t value = type == kShort ? reader.U16(entry + 8) : type == kLong ? reader.U32(entry + 8) : 1;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int ExifOrientation(Bytes exif) {
  if (ByteReader(exif).Is(0, std::string_view("Exif\0\0", 6))) exif = exif.subspan(6);
  try {
    return OrientationIn(exif);
  } catch (const BadImage&) {
    return 1;  // broken metadata does not make an image unreadable
  }
}

Image Upright(Image stored, int orientation) {
  if (orientation <= 1) return stored;
  const bool exchanged = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image upright = exchanged ? Image(stored.height, stored.width) : Image(stored.width, stored.height);
  for (int64_t y = 0; y < upright.height; ++y) {
    uint8_t* to = upright.row(y);
    for (int64_t x = 0; x < upright.width; ++x, to += 3) {
      int64_t row = exchanged ? x : y, column = exchanged ? y : x;
      if (from_below) row = stored.height - 1 - row;
      if (from_right) column = stored.width - 1 - column;
      const uint8_t* from = stored.row(row) + 3 * column;
      to[0] = from[0], to[1] = from[1], to[2] = from[2];
    }
  }
  return upright;
}

}  // namespace trireme::images
