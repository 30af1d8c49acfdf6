// ImageReader: the images of records as a model wants them: a grid and its number of tokens from a file's header alone,
// patches when they are needed. Which tokens stand for an image is the model's config.json to say; what becomes of
// patches is not known here. Safe to use from many threads.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/image_grid.h"
#include "data/image_edges.h"
#include "images/decode.h"
#include "images/processor.h"

namespace trireme {

// Whether the model of this directory has a vision tower, by its config.json; false where there is none.
bool SeesImages(const std::string& model);
// Whether the directory says how images become patches, too: without that only text can be tokenized for such a model.
bool HasImageSettings(const std::string& model);

class ImageReader {
 public:
  struct Options {
    std::string model;       // a directory with config.json and the image processor's settings
    int64_t min_pixels = 0;  // 0: as the processor's settings say; of tiles, the area of all of them
    int64_t max_pixels = 0;
    int64_t most_pixels = images::kMostPixels;  // of a file, by its header: more are refused before memory is taken
  };
  explicit ImageReader(const Options& options);

  // Reads the header, and the image itself only where its end looks torn off. `source`: a path, or a data: URL.
  ImageGrid GridOf(const std::string& source) const;
  int64_t TokensOf(const ImageGrid& grid) const { return processor_.TokensOf(grid); }

  // Decoded and resized; an input error where the file no longer has the grid that it had when it was tokenized.
  images::Image Load(const std::string& source, const ImageGrid& grid) const;
  // To patches [grid.patches(), patch_floats()].
  void WritePatches(const images::Image& image, float* patches) const { processor_.WritePatches(image, patches); }
  int64_t patch_floats() const { return processor_.patch_floats(); }

  int64_t placeholder() const { return placeholder_; }  // config.json's image_token_id
  const ImageEdges& edges() const { return edges_; }    // what stands around the placeholders of an image
  std::string Text() const;                             // everything that decides grids and patches, for digests

 private:
  const images::ImageProcessor processor_;
  const int64_t placeholder_;
  const ImageEdges edges_;
  const int64_t most_pixels_;
};

}  // namespace trireme
