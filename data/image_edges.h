// ImageEdges: tokens that a model's processor, not its chat template, puts around the placeholders of an image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct ImageEdges {
  std::vector<int32_t> before = {};
  std::vector<int32_t> after = {};
};

// InternVL's <img> and </img>, under the names that the directory's tokenizer has for them. Throws InputError where it
// has none.
ImageEdges ReadImageEdges(const std::string& model);

}  // namespace trireme
