// ImageProcessor: a model's rule from pixels to patches: the size an image is resized to, or the tiles that it is cut
// into, normalisation, and the patches' order. The settings are a model directory's processor_config.json or
// preprocessor_config.json; the numbers are, to the bit, those of transformers' Qwen2VLImageProcessor (Qwen2-VL,
// Qwen2.5-VL, Qwen3-VL) or GotOcr2ImageProcessor as InternVL's processor calls it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/image_grid.h"
#include "images/image.h"
#include "images/tiles.h"

namespace trireme::images {

struct ProcessorSettings {
  int64_t patch_size = 14;
  int64_t temporal_patch_size = 2;  // an image's only frame is repeated as often
  int64_t merge_size = 2;
  int64_t min_pixels = 56 * 56;
  int64_t max_pixels = 28 * 28 * 1280;
  std::array<double, 3> mean = {0.48145466, 0.4578275, 0.40821073};
  std::array<double, 3> std = {0.26862954, 0.26130258, 0.27577711};
  double rescale_factor = 1.0 / 255;
  std::optional<TileSettings> tiles = {};  // InternVL: images become tiles, whatever the limits of pixels say

  // Of a model's directory. Throws InputError for a missing file, another processor and settings that are not
  // implemented.
  static ProcessorSettings Read(const std::filesystem::path& model);
};

struct PixelSize {
  int64_t width = 0, height = 0;
  bool operator==(const PixelSize&) const = default;
};

class ImageProcessor {
 public:
  explicit ImageProcessor(const ProcessorSettings& settings);

  // Of an upright image of this size; tiles count as its time. Throws InputError; `name` is the image's.
  ImageGrid GridFor(PixelSize size, const std::string& name) const;
  // The image at the size of its grid, as WritePatches reads it; tiles one below the other.
  Image Prepared(const Image& image, const std::string& name) const;

  // What an upright image of this size is resized to ("smart resize"): multiples of patch · merge, within the limits of
  // pixels. Throws InputError for one side more than 200 times the other; `name` is the image's.
  PixelSize SizeFor(PixelSize size, const std::string& name) const;
  ImageGrid GridOf(PixelSize resized) const;
  int64_t TokensOf(const ImageGrid& grid) const { return grid.tokens(settings_.merge_size); }

  // Floats of a patch: channels · frames · patch_size².
  int64_t patch_floats() const;
  // To `patches` [grid.patches(), patch_floats()], by blocks of merge · merge patches. `resized` is Prepared's.
  void WritePatches(const Image& resized, float* patches) const;

  const ProcessorSettings& settings() const { return settings_; }
  std::string Text() const;  // all settings, for digests of what was made with them

 private:
  const ProcessorSettings settings_;
  std::array<std::array<float, 256>, 3> values_;  // by channel and byte: the normalised value
};

}  // namespace trireme::images
