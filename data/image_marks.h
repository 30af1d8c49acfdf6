// Which image belongs where in a conversation. Records name images in a list beside their messages and mark their
// places with <image> (ms-swift, LLaMA-Factory, ShareGPT), or inside the messages, as content parts (OpenAI, Anthropic,
// transformers). Both become parts {"type": "image"} in the messages, which chat templates read, and the images'
// sources in their order. Opens no image.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

// Whether a content part is an image, however it names it.
bool IsImagePart(const Json& part);

// Of the record's `images` or `image`: texts (paths, data: URLs), bytes, or objects with one of them.
std::vector<std::string> ListedImages(const Json& record);

// Changes the messages as above. Throws an input error if marks and listed images differ in number.
std::vector<std::string> PlaceImages(Json& messages, const std::vector<std::string>& listed);

// Absolute paths, relative ones in `folder` or, where it has no such file, in the working directory; data: URLs as they
// are.
std::vector<std::string> ResolvedImages(std::vector<std::string> sources, const std::filesystem::path& folder);

}  // namespace trireme
