#include "images/processor.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "images/resize.h"

namespace trireme::images {
namespace {

void RefuseThin(PixelSize size, const std::string& name) {
  if (std::max(size.height, size.width) <= 200 * std::min(size.height, size.width)) return;
  throw InputError("image ", name, ": ", size.width, " x ", size.height,
                   " pixels; a side may be at most 200 times the other");
}

int64_t Multiple(double count, int64_t factor) { return static_cast<int64_t>(count) * factor; }

}  // namespace

ImageProcessor::ImageProcessor(const ProcessorSettings& settings) : settings_(settings) {
  const float scale = static_cast<float>(1.0 / settings.rescale_factor);
  for (size_t c = 0; c < 3; ++c) {
    // Each step is rounded to fp32, as in transformers.
    const float mean = static_cast<float>(settings.mean[c]) * scale, std = static_cast<float>(settings.std[c]) * scale;
    for (size_t byte = 0; byte < 256; ++byte) values_[c][byte] = (static_cast<float>(byte) - mean) / std;
  }
}

PixelSize ImageProcessor::SizeFor(PixelSize size, const std::string& name) const {
  const int64_t factor = settings_.patch_size * settings_.merge_size;
  const double height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const double f = static_cast<double>(factor);
  RefuseThin(size, name);
  // nearbyint rounds halves to even, as Python does.
  PixelSize found = {Multiple(std::nearbyint(width / f), factor), Multiple(std::nearbyint(height / f), factor)};
  const int64_t area = found.width * found.height;
  if (area > settings_.max_pixels) {
    const double shrink = std::sqrt(height * width / static_cast<double>(settings_.max_pixels));
    found = {std::max(factor, Multiple(std::floor(width / shrink / f), factor)),
             std::max(factor, Multiple(std::floor(height / shrink / f), factor))};
  } else if (area < settings_.min_pixels) {
    const double grow = std::sqrt(static_cast<double>(settings_.min_pixels) / (height * width));
    found = {Multiple(std::ceil(width * grow / f), factor), Multiple(std::ceil(height * grow / f), factor)};
  }
  if (found.width < 1 || found.height < 1) {
    throw InputError("image ", name, ": ", size.width, " x ", size.height, " pixels become ", found.width, " x ",
                     found.height, ", because min_pixels is ", settings_.min_pixels, "; set it to at least ",
                     factor * factor);
  }
  return found;
}

ImageGrid ImageProcessor::GridFor(PixelSize size, const std::string& name) const {
  if (!settings_.tiles) return GridOf(SizeFor(size, name));
  RefuseThin(size, name);  // cut into tiles it would be large: rows are as long as a tile before they are joined
  ImageGrid grid = GridOf({settings_.tiles->side, settings_.tiles->side});
  grid.time = TilesFor(size.width, size.height, *settings_.tiles).tiles();
  return grid;
}

Image ImageProcessor::Prepared(const Image& image, const std::string& name) const {
  if (settings_.tiles) return CutTiles(image, *settings_.tiles);
  const PixelSize size = SizeFor({image.width, image.height}, name);
  return Resize(image, size.width, size.height);
}

ImageGrid ImageProcessor::GridOf(PixelSize resized) const {
  return {1, resized.height / settings_.patch_size, resized.width / settings_.patch_size};
}

int64_t ImageProcessor::patch_floats() const {
  return 3 * settings_.temporal_patch_size * settings_.patch_size * settings_.patch_size;
}

void ImageProcessor::WritePatches(const Image& resized, float* patches) const {
  const int64_t size = settings_.patch_size, merge = settings_.merge_size, frames = settings_.temporal_patch_size;
  const ImageGrid grid = GridOf({resized.width, resized.height});
  TRIREME_CHECK(grid.height % merge == 0 && grid.width % merge == 0) << resized.width << " x " << resized.height;
  for (int64_t p = 0; p < grid.patches(); ++p) {
    const int64_t block = p / (merge * merge), inside = p % (merge * merge), across = grid.width / merge;
    const int64_t top = (block / across * merge + inside / merge) * size;
    const int64_t left = (block % across * merge + inside % merge) * size;
    for (size_t c = 0; c < 3; ++c) {
      const float* begin = patches;
      for (int64_t y = 0; y < size; ++y) {
        const uint8_t* from = resized.row(top + y) + 3 * left;
        for (int64_t x = 0; x < size; ++x) *patches++ = values_[c][from[3 * x + static_cast<int64_t>(c)]];
      }
      for (int64_t t = 1; t < frames; ++t) patches = std::copy_n(begin, size * size, patches);
    }
  }
}

std::string ImageProcessor::Text() const {
  const ProcessorSettings& s = settings_;
  std::string text = Concat("patch ", s.patch_size, " x ", s.temporal_patch_size, ", merge ", s.merge_size, ", pixels ",
                            s.min_pixels, " to ", s.max_pixels, ", scale ", s.rescale_factor);
  for (size_t c = 0; c < 3; ++c) text += Concat(", ", s.mean[c], " / ", s.std[c]);
  if (s.tiles) text += Concat(", ", s.tiles->fewest, " to ", s.tiles->most, " tiles of ", s.tiles->side);
  return text;
}

}  // namespace trireme::images
