// JPEG through libjpeg-turbo with its default settings, which Pillow and torchvision use as well: the same bits.
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include <jerror.h>
#include <jpeglib.h>

#include "images/byte_reader.h"
#include "images/exif.h"
#include "images/format.h"

namespace trireme::images {
namespace {

bool IsJpeg(Bytes bytes) { return ByteReader(bytes).Is(0, "\xff\xd8\xff"); }

constexpr int kMostScans = 500;  // a progressive file has about ten; each one costs a pass over the whole image

bool IsFrame(uint32_t marker) {  // SOF0 to SOF15 without DHT, JPG and DAC
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

ImageHeader JpegHeader(Bytes bytes) {
  const ByteReader reader(bytes, /*big_endian=*/true);
  ImageHeader header{.surely_whole = reader.Is(reader.size() - 2, "\xff\xd9")};
  for (size_t at = 2;;) {
    if (reader.U8(at) != 0xff) throw BadImage("no marker where a JPEG file needs one");
    const uint32_t marker = reader.U8(at + 1);
    if (marker == 0xff || marker == 0x01 ||
        (marker >= 0xd0 && marker <= 0xd8)) {  // filling, or a marker without content
      at += marker == 0xff ? 1 : 2;
      continue;
    }
    if (marker == 0x00)
      throw BadImage("no marker where a JPEG file needs one");  // decoders would look for the next one
    if (marker == 0xd9 || marker == 0xda) throw BadImage("a JPEG file without the size of its image");
    const size_t length = reader.U16(at + 2);
    if (IsFrame(marker)) {
      header.height = reader.U16(at + 5);
      header.width = reader.U16(at + 7);
      return header;
    }
    if (length < 2) throw BadImage("a JPEG segment of less than two bytes");
    if (marker == 0xe1 && reader.Is(at + 4, std::string_view("Exif\0\0", 6)) && header.orientation == 1) {
      header.orientation = ExifOrientation(reader.At(at + 4, length - 2));
    }
    at += 2 + length;
  }
}

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = {};
  bool ended = false;  // the data did, before the image
};

void OnError(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->escape, 1);
}

void OnMessage(j_common_ptr info, int level) {
  if (level >= 0) return;
  ++info->err->num_warnings;
  if (info->err->msg_code == JWRN_JPEG_EOF) reinterpret_cast<JpegErrors*>(info->err)->ended = true;
}

void OnProgress(j_common_ptr info) {
  if (!info->is_decompressor || reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof(errors->message), "a JPEG file of more than %d scans", kMostScans);
  std::longjmp(errors->escape, 1);
}

// One row from the inks of printers as Adobe stores them (inverted), by Pillow's formula.
void CmykToRgb(const uint8_t* inks, int64_t width, uint8_t* rgb) {
  for (int64_t x = 0; x < width; ++x, inks += 4, rgb += 3) {
    const int light = inks[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - inks[c]) * light + 128;
      rgb[c] = static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

void GrayToRgb(const uint8_t* gray, int64_t width, uint8_t* rgb) {
  for (int64_t x = 0; x < width; ++x, rgb += 3) rgb[0] = rgb[1] = rgb[2] = gray[x];
}

// No object with a destructor is made between setjmp and longjmp. False: errors->message has the reason.
bool ReadRows(Bytes bytes, JpegErrors* errors, jpeg_decompress_struct* jpeg, jpeg_progress_mgr* progress, Image* image,
              uint8_t* line) {
  if (setjmp(errors->escape) != 0) return false;
  jpeg_create_decompress(jpeg);
  jpeg->progress = progress;
  jpeg_mem_src(jpeg, bytes.data(), bytes.size());
  jpeg_read_header(jpeg, TRUE);
  // Before memory is taken for it.
  if (static_cast<int64_t>(jpeg->image_width) != image->width ||
      static_cast<int64_t>(jpeg->image_height) != image->height) {
    std::strcpy(errors->message, "two sizes in one JPEG file");
    return false;
  }
  const bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  const bool gray = jpeg->jpeg_color_space == JCS_GRAYSCALE;
  jpeg->out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height && !errors->ended) {
    uint8_t* row = image->row(jpeg->output_scanline);
    JSAMPROW target = inks || gray ? line : row;
    if (jpeg_read_scanlines(jpeg, &target, 1) != 1) break;
    if (inks) CmykToRgb(line, image->width, row);
    if (gray) GrayToRgb(line, image->width, row);
  }
  return true;
}

Image DecodeJpeg(Bytes bytes, const ImageHeader& header) {
  Image image(header.width, header.height);
  std::vector<uint8_t> line(static_cast<size_t>(4 * header.width));
  JpegErrors errors;
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = OnError;
  errors.manager.emit_message = OnMessage;
  jpeg_progress_mgr progress{.progress_monitor = OnProgress};
  const bool read = ReadRows(bytes, &errors, &jpeg, &progress, &image, line.data());
  jpeg_destroy_decompress(&jpeg);
  if (!read) throw BadImage(errors.message);
  if (errors.ended) throw Truncated();
  return image;
}

}  // namespace

ImageFormat JpegFormat() { return {"JPEG", IsJpeg, JpegHeader, DecodeJpeg}; }

}  // namespace trireme::images
