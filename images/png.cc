// PNG through libpng: 1 to 16 bits, gray, palettes and colours, interlaced or not. Alpha is dropped and colours are
// taken as they are stored, as Pillow does: no gamma, no background.
#include <png.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "images/byte_reader.h"
#include "images/exif.h"
#include "images/format.h"

namespace trireme::images {
namespace {

constexpr std::string_view kPngSignature("\x89PNG\r\n\x1a\n", 8);
constexpr uint32_t kSixteenBits = 16, kGray = 0;

bool IsPng(Bytes bytes) { return ByteReader(bytes).Is(0, kPngSignature); }

ImageHeader PngHeader(Bytes bytes) {
  const ByteReader reader(bytes, /*big_endian=*/true);
  if (!reader.Is(12, "IHDR")) throw BadImage("a PNG file that does not begin with its header");
  ImageHeader header{.width = reader.U32(16), .height = reader.U32(20)};
  if (reader.U8(24) == kSixteenBits && reader.U8(25) == kGray) {
    throw BadImage("gray values of 16 bits; no rule says how they become colours of 8 bits, convert the file");
  }
  for (size_t at = 8; at + 12 <= reader.size();) {
    header.surely_whole = reader.Is(at + 4, "IEND");
    if (header.surely_whole) break;
    const size_t length = reader.U32(at);
    if (length > reader.size() - at) break;  // decoding will find out
    if (reader.Is(at + 4, "eXIf")) header.orientation = ExifOrientation(reader.At(at + 8, length));
    at += 12 + length;
  }
  return header;
}

struct PngInput {
  Bytes left;
  bool ended = false;
  char message[128] = {};
};

void ReadBytes(png_structp png, png_bytep to, size_t count) {
  auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > input->left.size()) {
    input->ended = true;
    png_error(png, "truncated");
  }
  std::memcpy(to, input->left.data(), count);
  input->left = input->left.subspan(count);
}

void OnPngError(png_structp png, png_const_charp text) {
  auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
  std::snprintf(input->message, sizeof(input->message), "libpng: %s", text);
  png_longjmp(png, 1);
}

void OnPngWarning(png_structp, png_const_charp) {}

// No object with a destructor is made between setjmp and longjmp. False: input->message has the reason.
bool ReadPng(png_structp png, png_infop info, PngInput* input, Image* image, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, input, ReadBytes);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  png_read_info(png, info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != static_cast<size_t>(3 * image->width)) png_error(png, "unexpected row size");
  png_read_image(png, rows);
  return true;
}

Image DecodePng(Bytes bytes, const ImageHeader& header) {
  Image image(header.width, header.height);
  std::vector<png_bytep> rows(static_cast<size_t>(header.height));
  for (int64_t y = 0; y < header.height; ++y) rows[static_cast<size_t>(y)] = image.row(y);
  PngInput input{.left = bytes};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, OnPngError, OnPngWarning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  const bool read = info != nullptr && ReadPng(png, info, &input, &image, rows.data());
  png_destroy_read_struct(&png, &info, nullptr);
  if (input.ended) throw Truncated();
  if (!read) throw BadImage(input.message);
  return image;
}

}  // namespace

ImageFormat PngFormat() { return {"PNG", IsPng, PngHeader, DecodePng}; }

}  // namespace trireme::images
