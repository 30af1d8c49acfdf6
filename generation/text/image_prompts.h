// Images of prompts: placeholders that chat templates print become as many tokens as the images have, and files become
// what the engine takes (generation/prompt_images.h). No torch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_reader.h"
#include "data/image_rows.h"
#include "generation/prompt_images.h"
#include "generation/text/prompts.h"

namespace trireme {

// Repeats each placeholder as often as its image has tokens, between the model's edges of an image. An input error
// where placeholders and images differ in number.
Tokens WithImageTokens(const Tokens& rendered, std::span<const ImageGrid> grids, const ImageReader& reader);

// Decoded and resized: what a server holds of a request's images, and tells its other ranks.
struct PromptPixels {
  ImageGrid grid = {};
  std::shared_ptr<const images::Image> image = {};
  int64_t bytes() const { return std::ssize(image->rgb); }
};
PromptPixels LoadPixels(const std::string& source, const ImageGrid& grid, const ImageReader& reader);
PromptImages ImagesOf(std::vector<PromptPixels> pixels, std::shared_ptr<const ImageReader> reader);
// As bytes, and back.
std::string PackPixels(const std::vector<PromptPixels>& pixels);
std::vector<PromptPixels> UnpackPixels(std::string_view bytes);

// Images by their sources, for prompts that are known before any is computed. All are decoded when they are read, so
// that what is damaged is found then; up to a bound they are kept, the others are decoded again when their turn comes.
class PromptImageReader {
 public:
  explicit PromptImageReader(const ImageReader::Options& options);
  // That the model takes them, by their headers.
  void Check(const std::vector<std::string>& sources) const;
  // `tokens` have one placeholder per image, and then those of its tokens.
  PromptImages Read(const std::vector<std::string>& sources, Tokens& tokens) const;

 private:
  const std::shared_ptr<const ImageReader> reader_;
  const std::shared_ptr<ImageCache> cache_;
};

// Of a row of tokens with patches (data/row_images.h).
PromptImages ImagesOf(const Row& row);

}  // namespace trireme
