// BMP: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits, from below or from above; not run-length encoded.
#include <array>
#include <bit>
#include <cstdlib>

#include "images/byte_reader.h"
#include "images/format.h"

namespace trireme::images {
namespace {

constexpr uint32_t kPlainBmp = 0, kMaskedBmp = 3;

struct BmpLayout {
  int64_t width = 0, height = 0;
  bool from_above = false;
  uint32_t bits = 0, compression = 0, colours = 0;
  size_t palette = 0, entry = 4, pixels = 0;  // offsets; bytes per entry of the palette
  std::array<uint32_t, 3> masks = {};         // red, green, blue: of 16 and 32 bits
};

bool IsBmp(Bytes bytes) { return ByteReader(bytes).Is(0, "BM"); }

void ReadMasks(const ByteReader& reader, BmpLayout* bmp) {
  if (bmp->bits == 24) bmp->masks = {0xff0000, 0xff00, 0xff};
  if (bmp->bits == 16) bmp->masks = {0x7c00, 0x3e0, 0x1f};
  if (bmp->bits == 32) bmp->masks = {0xff0000, 0xff00, 0xff};
  if (bmp->compression != kMaskedBmp) return;
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t mask = bmp->masks[i] = reader.U32(54 + 4 * i);
    const uint32_t ones = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    if (ones == 0 || (ones & (ones + 1)) != 0 || ones > 0xff) throw BadImage("a BMP file with unusual bit masks");
  }
}

BmpLayout ReadLayout(Bytes bytes) {
  const ByteReader reader(bytes);
  BmpLayout bmp;
  const uint32_t header = reader.U32(14);
  bmp.pixels = reader.U32(10);
  bmp.palette = 14 + size_t{header};
  if (header == 12) {  // OS/2
    bmp.width = reader.U16(18), bmp.height = reader.U16(20), bmp.bits = reader.U16(24);
    bmp.entry = 3;
  } else if (header >= 40 && header <= 124) {
    const int64_t height = static_cast<int32_t>(reader.U32(22));
    bmp.width = static_cast<int32_t>(reader.U32(18));
    bmp.height = std::abs(height);
    bmp.from_above = height < 0;
    bmp.bits = reader.U16(28), bmp.compression = reader.U32(30), bmp.colours = reader.U32(46);
  } else {
    throw BadImage("a BMP file with an unknown header");
  }
  if (bmp.compression != kPlainBmp && bmp.compression != kMaskedBmp)
    throw BadImage("a compressed BMP file; store it as PNG");
  const bool indexed = bmp.bits == 1 || bmp.bits == 4 || bmp.bits == 8;
  if (!indexed && bmp.bits != 16 && bmp.bits != 24 && bmp.bits != 32)
    throw BadImage("a BMP file with an unknown depth");
  if (indexed && bmp.compression != kPlainBmp) throw BadImage("a BMP file with both a palette and bit masks");
  if (bmp.colours == 0 || bmp.colours > 256) bmp.colours = indexed ? 1u << bmp.bits : 0;
  ReadMasks(reader, &bmp);
  return bmp;
}

ImageHeader BmpHeader(Bytes bytes) {
  const BmpLayout bmp = ReadLayout(bytes);
  return {.width = bmp.width, .height = bmp.height};  // not surely whole: decoding is cheap
}

uint8_t Masked(uint32_t pixel, uint32_t mask) {
  const int shift = std::countr_zero(mask);
  const uint32_t most = mask >> shift;
  return static_cast<uint8_t>(((pixel & mask) >> shift) * 255 / most);
}

void IndexedRow(const ByteReader& reader, const BmpLayout& bmp, Bytes line, uint8_t* to) {
  const uint32_t per_byte = 8 / bmp.bits, most = (1u << bmp.bits) - 1;
  for (int64_t x = 0; x < bmp.width; ++x, to += 3) {
    const uint32_t shift = bmp.bits * (per_byte - 1 - static_cast<uint32_t>(x) % per_byte);
    const uint32_t index = (line[static_cast<size_t>(x) / per_byte] >> shift) & most;
    if (index >= bmp.colours) {
      to[0] = to[1] = to[2] = static_cast<uint8_t>(index);
      continue;
    }
    const Bytes colour = reader.At(bmp.palette + bmp.entry * index, 3);
    to[0] = colour[2], to[1] = colour[1], to[2] = colour[0];
  }
}

void DirectRow(const BmpLayout& bmp, Bytes line, uint8_t* to) {
  const ByteReader pixels(line);
  const size_t step = bmp.bits / 8;
  for (int64_t x = 0; x < bmp.width; ++x, to += 3) {
    const size_t at = step * static_cast<size_t>(x);
    const uint32_t pixel = step == 2   ? pixels.U16(at)
                           : step == 4 ? pixels.U32(at)
                                       : pixels.U16(at) | pixels.U8(at + 2) << 16;
    for (size_t c = 0; c < 3; ++c) to[c] = Masked(pixel, bmp.masks[c]);
  }
}

Image DecodeBmp(Bytes bytes, const ImageHeader&) {
  const BmpLayout bmp = ReadLayout(bytes);
  const ByteReader reader(bytes);
  const size_t stride = (static_cast<size_t>(bmp.width) * bmp.bits + 31) / 32 * 4;
  reader.At(bmp.pixels, stride * static_cast<size_t>(bmp.height));  // all there before memory is taken
  Image image(bmp.width, bmp.height);
  for (int64_t y = 0; y < bmp.height; ++y) {
    const int64_t line = bmp.from_above ? y : bmp.height - 1 - y;
    const Bytes row = reader.At(bmp.pixels + stride * static_cast<size_t>(line), stride);
    if (bmp.bits <= 8) {
      IndexedRow(reader, bmp, row, image.row(y));
    } else {
      DirectRow(bmp, row, image.row(y));
    }
  }
  return image;
}

}  // namespace

ImageFormat BmpFormat() { return {"BMP", IsBmp, BmpHeader, DecodeBmp}; }

}  // namespace trireme::images
