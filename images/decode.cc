#include "images/decode.h"

#include <array>
#include <utility>

#include "core/base/error.h"
#include "images/byte_reader.h"
#include "images/exif.h"
#include "images/format.h"

namespace trireme::images {
namespace {

const std::array<ImageFormat, 5>& Formats() {
  static const std::array formats = {JpegFormat(), PngFormat(), WebpFormat(), GifFormat(), BmpFormat()};
  return formats;
}

std::string FormatNames() {
  std::string names;
  for (const ImageFormat& format : Formats()) names += Concat(names.empty() ? "" : ", ", format.name);
  return names;
}

const ImageFormat& FormatOf(Bytes bytes, const std::string& name) {
  for (const ImageFormat& format : Formats()) {
    if (format.is(bytes)) return format;
  }
  if (bytes.empty()) throw InputError("image ", name, ": the file is empty");
  throw InputError("image ", name, ": by its first bytes it is none of ", FormatNames());
}

template <typename Work>
auto Named(const ImageFormat& format, const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const BadImage& bad) {
    throw InputError("image ", name, " (", format.name, "): ", bad.what());
  }
}

ImageHeader CheckedHeader(const ImageFormat& format, Bytes bytes, const std::string& name, int64_t most_pixels) {
  ImageHeader header = Named(format, name, [&] { return format.header(bytes); });
  header.format = format.name;
  if (header.width < 1 || header.height < 1) {
    throw InputError("image ", name, " (", format.name, "): ", header.width, " x ", header.height, " pixels");
  }
  if (header.height > most_pixels / header.width) {
    throw InputError("image ", name, " (", format.name, "): ", header.width, " x ", header.height,
                     " pixels are more than ", most_pixels,
                     "; scale it down, or leave it out if it is a decompression bomb");
  }
  return header;
}

}  // namespace

ImageHeader ReadImageHeader(Bytes bytes, const std::string& name, int64_t most_pixels) {
  return CheckedHeader(FormatOf(bytes, name), bytes, name, most_pixels);
}

Image DecodeImage(Bytes bytes, const std::string& name, int64_t most_pixels) {
  const ImageFormat& format = FormatOf(bytes, name);
  const ImageHeader header = CheckedHeader(format, bytes, name, most_pixels);
  Image stored = Named(format, name, [&] { return format.decode(bytes, header); });
  return Upright(std::move(stored), header.orientation);
}

}  // namespace trireme::images
