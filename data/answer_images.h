// Images of records with answers: they stand in the prompt, which all answers share; answers are text. Opens no image.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

// The prompt's marks become parts (image_marks.h); returns the images' sources in their order. An input error where
// marks and listed images differ in number, an answer has an image, or a prompt that is a text has images beside it.
// An answer is a text or messages; the first of two is the chosen one.
std::vector<std::string> PlacePromptImages(Json& prompt, const std::vector<Json>& answers,
                                           const std::vector<std::string>& listed);

// ms-swift's images of the rejected conversation, unless they are the record's images.
void RefuseRejectedImages(const Json& record);

}  // namespace trireme
