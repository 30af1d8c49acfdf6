// Decoding: an image file's bytes to upright RGB pixels, the format told by content, never by name. As transformers'
// load_image does: EXIF's orientation is applied, alpha is dropped, gray and palettes are expanded. Where bytes come
// from is ImageSource's concern; how large an image should be, the processor's.
#pragma once

#include <cstdint>
#include <string>

#include "images/image.h"

namespace trireme::images {

// Twice Pillow's MAX_IMAGE_PIXELS: what Pillow calls a decompression bomb and refuses.
inline constexpr int64_t kMostPixels = 178'956'970;

// `name` is what errors (InputError) call the image. Takes no memory for pixels.
ImageHeader ReadImageHeader(Bytes bytes, const std::string& name, int64_t most_pixels = kMostPixels);
Image DecodeImage(Bytes bytes, const std::string& name, int64_t most_pixels = kMostPixels);

}  // namespace trireme::images
