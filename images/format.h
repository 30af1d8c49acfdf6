// ImageFormat: what a file format can do. A format is a file here and a line in formats.cc. Its functions throw
// BadImage.
#pragma once

#include <string_view>

#include "images/image.h"

namespace trireme::images {

struct ImageFormat {
  std::string_view name;
  bool (*is)(Bytes bytes);                                  // by its first bytes
  ImageHeader (*header)(Bytes bytes);                       // takes no memory for pixels
  Image (*decode)(Bytes bytes, const ImageHeader& header);  // as stored; only after header() and its size were accepted
};

ImageFormat JpegFormat();
ImageFormat PngFormat();
ImageFormat WebpFormat();
ImageFormat BmpFormat();
ImageFormat GifFormat();

}  // namespace trireme::images
