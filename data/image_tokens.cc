#include "data/image_tokens.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

void CheckMarks(const std::vector<int32_t>& ids, int64_t images, const ImageReader& reader) {
  const auto marks = std::ranges::count(ids, static_cast<int32_t>(reader.placeholder()));
  if (marks == images) return;
  throw InputError("its text as the chat template renders it has ", marks, " image placeholders (token ",
                   reader.placeholder(), "), but ", images,
                   " images; remove placeholder tokens from the texts, or set data.template to a template that ",
                   "renders image parts");
}

}  // namespace

std::vector<RowImage> HeadersOf(const std::vector<std::string>& sources, const ImageReader& reader) {
  std::vector<RowImage> images;
  for (const std::string& source : sources) images.push_back({.source = source, .grid = reader.GridOf(source)});
  return images;
}

std::vector<RowImage> ExpandImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                   std::vector<int32_t>& ids, std::vector<float>& weights) {
  CheckMarks(ids, std::ssize(sources), reader);
  return ExpandImages(HeadersOf(sources, reader), reader, ids, weights);
}

std::vector<RowImage> ExpandImages(std::vector<RowImage> images, const ImageReader& reader, std::vector<int32_t>& ids,
                                   std::vector<float>& weights) {
  CheckMarks(ids, std::ssize(images), reader);
  const auto placeholder = static_cast<int32_t>(reader.placeholder());
  size_t next = 0;
  std::vector<int32_t> wide;
  std::vector<float> wide_weights;
  const auto append = [&](const std::vector<int32_t>& tokens, float weight) {
    wide.insert(wide.end(), tokens.begin(), tokens.end());
    wide_weights.insert(wide_weights.end(), tokens.size(), weight);
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != placeholder) {
      append({ids[i]}, weights[i]);
      continue;
    }
    RowImage& image = images[next++];
    append(reader.edges().before, weights[i]);
    image.first = std::ssize(wide);
    append(std::vector<int32_t>(static_cast<size_t>(reader.TokensOf(image.grid)), placeholder), 0);
    append(reader.edges().after, weights[i]);
  }
  ids = std::move(wide);
  weights = std::move(wide_weights);
  return images;
}

std::vector<RowImage> FindImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                 const std::vector<int32_t>& ids) {
  const auto placeholder = static_cast<int32_t>(reader.placeholder());
  std::vector<RowImage> images;
  auto at = ids.begin();
  for (const std::string& source : sources) {
    const ImageGrid grid = reader.GridOf(source);
    const int64_t tokens = reader.TokensOf(grid);
    at = std::find(at, ids.end(), placeholder);
    const auto end = std::find_if(at, ids.end(), [&](int32_t id) { return id != placeholder; });
    if (end - at < tokens) {
      throw InputError("image ", images.size() + 1, " (", source.substr(0, 60), ") has ", tokens, " tokens, but only ",
                       end - at, " placeholders (token ", placeholder, ") stand for it");
    }
    images.push_back({source, grid, at - ids.begin()});
    at += tokens;
  }
  const auto left = std::count(at, ids.end(), placeholder);
  if (left > 0)
    throw InputError(left, " image placeholders (token ", placeholder, ") after those of its ", sources.size(),
                     " images");
  return images;
}

std::vector<RowImage> FindPromptImages(const std::vector<std::string>& sources, const ImageReader& reader,
                                       const std::vector<int32_t>& prompt) {
  std::vector<RowImage> images = FindImages(sources, reader, prompt);
  if (prompt.empty() || prompt.back() != reader.placeholder()) return images;
  throw InputError("the prompt ends with an image placeholder (token ", reader.placeholder(),
                   "); wanted a token of text after its last image, which answers follow");
}

}  // namespace trireme
