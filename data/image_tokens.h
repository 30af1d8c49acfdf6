// The tokens of images in a row: a chat template prints one placeholder per image, a model wants as many as the image's
// grid has tokens. Reads headers of images only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/image_reader.h"
#include "data/rows.h"

namespace trireme {

// By image, from its file's header.
std::vector<RowImage> HeadersOf(const std::vector<std::string>& sources, const ImageReader& reader);

// Repeats each placeholder, none of which is trained (weights by id become 0), between the tokens that the processor
// adds.
std::vector<RowImage> ExpandImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                   std::vector<int32_t>& ids, std::vector<float>& weights);
// The same of images whose grids are known; returns them with their places.
std::vector<RowImage> ExpandImages(std::vector<RowImage> images, const ImageReader& reader, std::vector<int32_t>& ids,
                                   std::vector<float>& weights);

// The images of a row of tokens whose placeholders are already as many as the images have tokens, as the processor
// makes them.
std::vector<RowImage> FindImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                 const std::vector<int32_t>& ids);

// The same of a prompt, which answers follow: it does not end within an image, for its last token predicts theirs.
std::vector<RowImage> FindPromptImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                       const std::vector<int32_t>& prompt);

}  // namespace trireme
