#include "launch/generate_images.h"

#include <utility>

#include "core/base/error.h"
#include "data/image_marks.h"

namespace trireme {

const PromptImageReader& GenerateImages::Reader() const {
  if (reader_ == nullptr) {
    reader_ = std::make_unique<const PromptImageReader>(
        ImageReader::Options{config_.model().path(), config_.model().min_pixels(), config_.model().max_pixels()});
  }
  return *reader_;
}

void GenerateImages::CheckFiles(const std::vector<std::string>& sources) const {
  if (!sources.empty()) Reader().Check(sources);
}

SeenPrompt GenerateImages::Read(Tokens rendered, const std::vector<std::string>& sources,
                                const std::string& where) const {
  SeenPrompt prompt{.tokens = std::move(rendered)};
  try {
    if (!sources.empty()) prompt.images = Reader().Read(sources, prompt.tokens);
  } catch (const Error& error) {
    throw Error(error.kind(), Concat(where, ": ", error.what()));
  }
  Check(prompt, where);
  return prompt;
}

// Before any weights: the engine would find out, too.
void GenerateImages::Check(const SeenPrompt& prompt, const std::string& where) const {
  if (!kind_) return;
  try {
    const PlacedImages placed(prompt.tokens, prompt.images, {kind_->placeholder, kind_->merge, kind_->tile},
                              /*rotary=*/true);
  } catch (const Error& error) {
    throw Error(error.kind(), Concat(where, ": ", error.what()));
  }
}

std::vector<SeenPrompt> GenerateImages::ReadRows(const std::string& path, int64_t vocabulary) const {
  std::vector<Row> rows = ReadPrompts(path, vocabulary, kind_ ? &*kind_ : nullptr);
  LoadRowImages(rows, path, {config_.model().path(), config_.model().min_pixels(), config_.model().max_pixels()});
  std::vector<SeenPrompt> prompts;
  for (Row& row : rows) prompts.push_back({std::move(row.input_ids), ImagesOf(row)});
  return prompts;
}

std::vector<std::string> ChatImages(const Arguments& arguments, bool talks, bool sees) {
  const std::vector<std::string> given = arguments.values("image");
  if (given.empty()) return {};
  if (!talks) {
    throw InputError("--image ", given.front(),
                     " is for chats: add --chat; in a file of --messages, conversations name their ",
                     "images themselves");
  }
  if (!sees) throw InputError("--image ", given.front(), ": the model has no vision tower");
  return ResolvedImages(given, ".");
}

Json UserMessage(const std::string& text, size_t images) {
  if (images == 0) return {{"role", "user"}, {"content", text}};
  Json parts = Json::array();
  for (size_t i = 0; i < images; ++i) parts.push_back({{"type", "image"}});
  parts.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", parts}};
}

}  // namespace trireme
