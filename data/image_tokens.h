// The tokens of images in a row: a chat template prints one placeholder per image, a model wants as many as the image's
// grid has tokens. Reads headers of images only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/image_reader.h"
#include "data/rows.h"

namespace trireme {

// Repeats each placeholder, none of which is trained (weights by id become 0), between the tokens that the processor
// adds.
std::vector<RowImage> ExpandImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                   std::vector<int32_t>& ids, std::vector<float>& weights);

// The images of a row of tokens whose placeholders are already as many as the images have tokens, as the processor
// makes them.
std::vector<RowImage> FindImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                 const std::vector<int32_t>& ids);

}  // namespace trireme
