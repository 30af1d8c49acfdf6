// WebP through libwebp, lossy and lossless; alpha is dropped. Animations are refused.
#include <webp/decode.h>

#include <string>

#include "images/byte_reader.h"
#include "images/exif.h"
#include "images/format.h"

namespace trireme::images {
namespace {

bool IsWebp(Bytes bytes) {
  const ByteReader reader(bytes);
  return reader.Is(0, "RIFF") && reader.Is(8, "WEBP");
}

int WebpOrientation(Bytes bytes) {
  const ByteReader reader(bytes);
  for (size_t at = 12; at + 8 <= reader.size();) {
    const size_t length = reader.U32(at + 4);
    if (length > reader.size() - at - 8) return 1;
    if (reader.Is(at, "EXIF")) return ExifOrientation(reader.At(at + 8, length));
    at += 8 + length + length % 2;
  }
  return 1;
}

ImageHeader WebpHeader(Bytes bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(bytes.data(), bytes.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) throw Truncated();
  if (status != VP8_STATUS_OK) throw BadImage(std::string("libwebp: status ") + std::to_string(status));
  if (features.has_animation != 0)
    throw BadImage("an animated WebP; store the frame that is meant as an image of its own");
  return {.width = features.width,
          .height = features.height,
          .orientation = WebpOrientation(bytes),
          .surely_whole = ByteReader(bytes).U32(4) <= bytes.size() - 8};
}

Image DecodeWebp(Bytes bytes, const ImageHeader& header) {
  Image image(header.width, header.height);
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw BadImage("libwebp has another version than its headers");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {
      .rgba = image.rgb.data(), .stride = static_cast<int>(3 * image.width), .size = image.rgb.size()};
  const VP8StatusCode status = WebPDecode(bytes.data(), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED) throw Truncated();
  if (status != VP8_STATUS_OK) throw BadImage(std::string("libwebp: broken data, status ") + std::to_string(status));
  return image;
}

}  // namespace

ImageFormat WebpFormat() { return {"WebP", IsWebp, WebpHeader, DecodeWebp}; }

}  // namespace trireme::images
