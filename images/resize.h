// Bicubic, antialiased resizing of RGB bytes, to the bit what torchvision computes on uint8 tensors: 16-bit weights,
// rows first, bytes between the two passes. transformers' image processors resize with it.
#pragma once

#include "images/image.h"

namespace trireme::images {

Image Resize(const Image& image, int64_t width, int64_t height);

}  // namespace trireme::images
