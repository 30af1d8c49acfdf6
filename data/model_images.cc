#include "data/model_images.h"

#include <string>

#include "core/config.pb.h"
#include "data/image_reader.h"

namespace trireme {

std::shared_ptr<const ImageReader> ImageReaderOf(const ModelConfig& model) {
  if (!HasImageSettings(model.path())) return nullptr;
  return std::make_shared<const ImageReader>(
      ImageReader::Options{.model = model.path(), .min_pixels = model.min_pixels(), .max_pixels = model.max_pixels()});
}

ContentDigest ContentOf(const RowImage& image) {
  return DigestOfContent({image.source, std::to_string(image.grid.height), std::to_string(image.grid.width)});
}

}  // namespace trireme
