// What a model's directory says of images, for those who have a configuration, and how an image is told from others.
#pragma once

#include <memory>

#include "core/io/content_digest.h"
#include "data/rows.h"

namespace trireme {

class ImageReader;  // data/image_reader.h
class ModelConfig;  // core/config.pb.h

// Of a model that sees and whose directory has the settings of its image processor; null: others.
std::shared_ptr<const ImageReader> ImageReaderOf(const ModelConfig& model);

// Which image it is, by its source and grid: the same for the same patches, as long as files do not change.
ContentDigest ContentOf(const RowImage& image);

}  // namespace trireme
