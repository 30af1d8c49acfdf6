#include "generation/text/image_prompts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr size_t kKeptBytes = size_t{256} << 20;  // of decoded images

template <typename T>
std::string_view AsBytes(const T* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

using GridNumbers = std::array<int64_t, 3>;
GridNumbers NumbersOf(const ImageGrid& grid) { return {grid.time, grid.height, grid.width}; }

ContentDigest DigestOf(const ImageGrid& grid, std::string_view content) {
  const GridNumbers numbers = NumbersOf(grid);
  return DigestOfContent({AsBytes(numbers.data(), numbers.size()), content});
}

ContentDigest DigestOf(const ImageGrid& grid, const images::Image& image) {
  return DigestOf(grid, AsBytes(image.rgb.data(), image.rgb.size()));
}

}  // namespace

Tokens WithImageTokens(const Tokens& rendered, std::span<const ImageGrid> grids, const ImageReader& reader) {
  const auto marks = std::ranges::count(rendered, reader.placeholder());
  if (marks != std::ssize(grids)) {
    throw InputError("as the chat template renders it, it has ", marks, " image placeholders (token ",
                     reader.placeholder(), ") and ", grids.size(),
                     " images; remove placeholder tokens from the texts, or use a template that renders ",
                     "image parts");
  }
  Tokens tokens;
  for (const int64_t token : rendered) {
    if (token != reader.placeholder()) {
      tokens.push_back(token);
      continue;
    }
    const ImageEdges& edges = reader.edges();
    tokens.insert(tokens.end(), edges.before.begin(), edges.before.end());
    tokens.insert(tokens.end(), static_cast<size_t>(reader.TokensOf(grids.front())), token);
    tokens.insert(tokens.end(), edges.after.begin(), edges.after.end());
    grids = grids.subspan(1);
  }
  return tokens;
}

PromptPixels LoadPixels(const std::string& source, const ImageGrid& grid, const ImageReader& reader) {
  return {grid, std::make_shared<const images::Image>(reader.Load(source, grid))};
}

PromptImages ImagesOf(std::vector<PromptPixels> pixels, std::shared_ptr<const ImageReader> reader) {
  PromptImages images;
  for (const PromptPixels& one : pixels) images.each.push_back({one.grid, DigestOf(one.grid, *one.image)});
  images.write = [reader = std::move(reader), pixels = std::move(pixels)](size_t image, float* patches) {
    reader->WritePatches(*pixels[image].image, patches);
  };
  return images;
}

std::string PackPixels(const std::vector<PromptPixels>& pixels) {
  std::string bytes;
  for (const PromptPixels& one : pixels) {
    const std::array<int64_t, 5> head = {one.grid.time, one.grid.height, one.grid.width, one.image->width,
                                         one.image->height};
    bytes += AsBytes(head.data(), head.size());
    bytes += AsBytes(one.image->rgb.data(), one.image->rgb.size());
  }
  return bytes;
}

std::vector<PromptPixels> UnpackPixels(std::string_view bytes) {
  std::vector<PromptPixels> pixels;
  std::array<int64_t, 5> head;
  while (!bytes.empty()) {
    TRIREME_CHECK(bytes.size() >= sizeof(head));
    std::memcpy(head.data(), bytes.data(), sizeof(head));
    bytes.remove_prefix(sizeof(head));
    images::Image image(head[3], head[4]);
    TRIREME_CHECK(bytes.size() >= image.rgb.size());
    std::memcpy(image.rgb.data(), bytes.data(), image.rgb.size());
    bytes.remove_prefix(image.rgb.size());
    pixels.push_back({{head[0], head[1], head[2]}, std::make_shared<const images::Image>(std::move(image))});
  }
  return pixels;
}

PromptImageReader::PromptImageReader(const ImageReader::Options& options)
    : reader_(std::make_shared<const ImageReader>(options)),
      cache_(std::make_shared<ImageCache>(reader_, kKeptBytes)) {}

void PromptImageReader::Check(const std::vector<std::string>& sources) const {
  for (const std::string& source : sources) reader_->GridOf(source);
}

PromptImages PromptImageReader::Read(const std::vector<std::string>& sources, Tokens& tokens) const {
  std::vector<RowImage> found;
  std::vector<ImageGrid> grids;
  for (const std::string& source : sources) {
    grids.push_back(reader_->GridOf(source));
    found.push_back({.source = source, .grid = grids.back()});
  }
  tokens = WithImageTokens(tokens, grids, *reader_);
  PromptImages images;
  for (const RowImage& image : found) images.each.push_back({image.grid, DigestOf(image.grid, *cache_->Get(image))});
  images.write = [reader = reader_, cache = cache_, found = std::move(found)](size_t image, float* patches) {
    reader->WritePatches(*cache->Get(found[image]), patches);
  };
  return images;
}

PromptImages ImagesOf(const Row& row) {
  if (row.grids.empty()) return {};
  int64_t patches = 0;
  for (const ImageGrid& grid : row.grids) patches += grid.patches();
  const auto elements = static_cast<int64_t>(row.patches->size()) / patches;
  PromptImages images;
  std::vector<std::span<const float>> parts;
  int64_t begin = 0;
  for (const ImageGrid& grid : row.grids) {
    parts.push_back(
        std::span(*row.patches)
            .subspan(static_cast<size_t>(begin * elements), static_cast<size_t>(grid.patches() * elements)));
    images.each.push_back({grid, DigestOf(grid, AsBytes(parts.back().data(), parts.back().size()))});
    begin += grid.patches();
  }
  images.write = [held = row.patches, parts = std::move(parts)](size_t image, float* to) {
    std::copy(parts[image].begin(), parts[image].end(), to);
  };
  return images;
}

}  // namespace trireme
