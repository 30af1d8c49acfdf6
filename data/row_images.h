// The images of a row whose patches are given: read from a file beside the rows, and checked against the row's tokens.
// Decodes no image: patches are what the model's image processor makes of them.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/json.h"
#include "data/rows.h"
#include "parallel/graph/graph.h"

namespace trireme {

// From {"pixel_values": "FILE.safetensors", "image_grid_thw": [[1, height, width], …]} beside the row's tokens, if it
// has these keys; FILE holds a tensor pixel_values of [patches, elements of a patch] and is relative to `folder`.
// `kind`: nullptr: the model does not see, and such keys are refused. With {"images": […]} instead, row.images only
// gets their sources: LoadRowImages (image_rows.h) does the rest.
void ReadRowImages(const Json& object, const std::string& where, const std::filesystem::path& folder,
                   const ImageInputs* kind, Row& row);

// Where each document of the row ends, as lengths.
std::vector<int64_t> DocumentLengths(const Row& row);

}  // namespace trireme
