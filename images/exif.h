// EXIF: the one tag of it that changes pixels, the orientation.
#pragma once

#include "images/image.h"

namespace trireme::images {

// 1 to 8, from a TIFF structure with or without "Exif\0\0" before it; 1 where it has none or makes no sense.
int ExifOrientation(Bytes exif);

// The image as it is meant to be looked at.
Image Upright(Image stored, int orientation);

}  // namespace trireme::images
