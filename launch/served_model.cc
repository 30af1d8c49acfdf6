#include "launch/served_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "data/image_reader.h"
#include "data/record_fields.h"
#include "generation/text/prompts.h"
#include "text/token_bytes.h"

namespace trireme {
namespace {

ToolForm ToolFormFor(const Arguments& arguments, const std::optional<ChatTemplate>& chat) {
  const std::string name = arguments.value("tool-call-parser");
  if (name.empty()) return chat ? ToolFormOf(chat->source()) : nullptr;
  if (const ToolForm form = FindToolForm(name)) return form;
  throw InputError("--tool-call-parser ", name, ": unknown; known: ", Join(ToolFormNames()));
}

}  // namespace

std::string LastComponent(const std::string& directory) {
  const std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

TextSide::TextSide(const Config& config, bool speaks) : tokenizer(config.model().path()) {
  try {
    chat.emplace(ChatTemplate::Of(tokenizer, config.data().template_(), TemplateValuesOf(config.data())));
  } catch (const Error& error) {
    if (!config.data().template_().empty()) throw;
    if (speaks) TRIREME_LOG(WARNING) << "no chats: " << error.what();
  }
  try {
    std::vector<std::optional<std::string>> tokens = BytesOfTokens(config.model().path());
    for (const auto& token : tokens) token_bytes = std::max<int64_t>(token_bytes, token ? std::ssize(*token) : 0);
    json = std::make_shared<const JsonTokens>(std::move(tokens));
  } catch (const std::exception& error) {
    why_no_json = error.what();
  }
}

ServedModel ModelOf(const Arguments& arguments, const std::string& directory, const TextSide& text,
                    int64_t vocabulary) {
  ServedModel model{.tokenizer = text.tokenizer,
                    .chat = text.chat ? &*text.chat : nullptr,
                    .name = arguments.value("served-model-name", LastComponent(directory)),
                    .created = UnixSeconds(),
                    .vocabulary = vocabulary,
                    .token_bytes = text.token_bytes,
                    .ends = EndTokens(directory, &text.tokenizer),
                    .most_rows = 8 * arguments.integer("max-rows", 16, 1)};
  model.turn_ends = model.ends;
  model.tool_form = ToolFormFor(arguments, text.chat);
  model.why_no_json = text.why_no_json;
  if (!text.chat) return model;
  if (const auto end = TurnEnd(text.tokenizer, *text.chat)) model.turn_ends.insert(*end);
  return model;
}

void UseImages(const Arguments& arguments, const Config& config, const LayerGraph& graph, bool speaks,
               ServedModel& model) {
  const int64_t most = arguments.integer("max-images", kMostImages),
                pixels = arguments.integer("max-image-pixels", kMostImagePixels, 1);
  if (!graph.images) {
    for (const char* name : {"max-images", "max-image-pixels"}) {
      if (arguments.has(name)) throw InputError("--", name, ": the model has no vision tower");
    }
    return;
  }
  model.image_token = graph.images->placeholder;
  model.most_images = most;
  if (!HasImageSettings(config.model().path())) {
    if (speaks)
      TRIREME_LOG(WARNING) << "no images: " << config.model().path()
                           << " has neither preprocessor_config.json nor processor_config.json";
    return;
  }
  model.images = std::make_shared<const ImageReader>(
      ImageReader::Options{config.model().path(), config.model().min_pixels(), config.model().max_pixels(), pixels});
}

}  // namespace trireme
