// ImageGrid: how many patches an image was cut into. A plain value that data, models and positions share.
#pragma once

#include <cstdint>

namespace trireme {

struct ImageGrid {  // in patches, before the tower merges merge · merge of them into a token
  int64_t time = 1;
  int64_t height = 0;
  int64_t width = 0;
  int64_t patches() const { return time * height * width; }
  int64_t tokens(int64_t merge) const { return patches() / (merge * merge); }
  bool operator==(const ImageGrid&) const = default;
};

}  // namespace trireme
