#include "data/image_reader.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/rounding.h"
#include "images/image_source.h"

namespace trireme {
namespace {

std::filesystem::path ConfigOf(const std::string& model) { return std::filesystem::path(model) / "config.json"; }

// As many tiles as the limits of pixels have room for, at least one.
void LimitTiles(const ImageReader::Options& options, images::TileSettings& tiles) {
  const int64_t area = tiles.side * tiles.side;
  if (options.max_pixels > 0) tiles.most = std::max<int64_t>(options.max_pixels / area, 1);
  if (options.min_pixels > 0) tiles.fewest = DivideUp(options.min_pixels, area);
  if (tiles.fewest > tiles.most) {
    throw InputError("images: at least ", tiles.fewest, " and at most ", tiles.most, " tiles of ", area,
                     " pixels; set model.min_pixels and model.max_pixels");
  }
}

images::ImageProcessor ProcessorOf(const ImageReader::Options& options) {
  images::ProcessorSettings settings = images::ProcessorSettings::Read(options.model);
  if (options.min_pixels > 0) settings.min_pixels = options.min_pixels;
  if (options.max_pixels > 0) settings.max_pixels = options.max_pixels;
  if (!settings.tiles && settings.min_pixels > settings.max_pixels) {
    throw InputError("images: min_pixels ", settings.min_pixels, " is more than max_pixels ", settings.max_pixels,
                     "; set model.min_pixels and model.max_pixels");
  }
  if (settings.tiles) LimitTiles(options, *settings.tiles);
  return images::ImageProcessor(settings);
}

// The processor's patches must be those that the tower was made for.
void CheckTower(const Json& config, const images::ProcessorSettings& settings, const std::string& path) {
  const auto tower = config.find("vision_config");
  if (tower == config.end() || !tower->is_object()) return;
  for (const auto& [key, value] : {std::pair{"patch_size", settings.patch_size},
                                   {"temporal_patch_size", settings.temporal_patch_size},
                                   {"spatial_merge_size", settings.merge_size}}) {
    const auto found = tower->find(key);
    if (found == tower->end() || !found->is_number_integer() || found->get<int64_t>() == value) continue;
    throw InputError(path, ": vision_config.", key, " is ", found->dump(), ", but the image processor beside it makes ",
                     value, "; the two files are of different models");
  }
}

int64_t PlaceholderOf(const std::string& model, const images::ProcessorSettings& settings) {
  const std::string path = ConfigOf(model).string();
  const Json config = ReadJsonFile(path);
  CheckTower(config, settings, path);
  const auto found = config.find("image_token_id");
  if (found != config.end() && found->is_number_integer()) return found->get<int64_t>();
  throw InputError(path, ": has no image_token_id, the token that stands for a part of an image");
}

std::string GridText(const ImageGrid& grid) {
  return Concat(grid.time > 1 ? Concat(grid.time, " x ") : "", grid.height, " x ", grid.width);
}

}  // namespace

bool SeesImages(const std::string& model) {
  if (model.empty() || !PathExists(ConfigOf(model))) return false;
  const Json config = ReadJsonFile(ConfigOf(model).string());
  return config.is_object() && config.contains("vision_config");
}

bool HasImageSettings(const std::string& model) {
  const std::filesystem::path folder = model;
  return SeesImages(model) &&
         (PathExists(folder / "preprocessor_config.json") || PathExists(folder / "processor_config.json"));
}

ImageReader::ImageReader(const Options& options)
    : processor_(ProcessorOf(options)),
      placeholder_(PlaceholderOf(options.model, processor_.settings())),
      edges_(processor_.settings().tiles ? ReadImageEdges(options.model) : ImageEdges{}),
      most_pixels_(options.most_pixels) {}

ImageGrid ImageReader::GridOf(const std::string& source) const {
  const images::ImageSource file(source, ".");
  const images::ImageHeader header = images::ReadImageHeader(file.bytes(), file.name(), most_pixels_);
  if (!header.surely_whole) images::DecodeImage(file.bytes(), file.name(), most_pixels_);
  return processor_.GridFor({header.upright_width(), header.upright_height()}, file.name());
}

images::Image ImageReader::Load(const std::string& source, const ImageGrid& grid) const {
  const images::ImageSource file(source, ".");
  const images::Image image = images::DecodeImage(file.bytes(), file.name(), most_pixels_);
  const ImageGrid found = processor_.GridFor({image.width, image.height}, file.name());
  if (!(found == grid)) {
    throw InputError("image ", file.name(), ": its grid is ", GridText(found), " patches, but was ", GridText(grid),
                     " when the data was tokenized; the file changed, remove the data cache (data.cache)");
  }
  return processor_.Prepared(image, file.name());
}

std::string ImageReader::Text() const {
  return Concat(processor_.Text(), ", placeholder ", placeholder_, ", ", edges_.before.size(), " edges");
}

}  // namespace trireme
