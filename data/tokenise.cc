#include "data/tokenise.h"

#include <algorithm>

#include "core/base/error.h"
#include "data/image_tokens.h"

namespace trireme {
namespace {

constexpr auto kIgnored = static_cast<int32_t>(kNotTrained);

StoredRow WithLabels(std::vector<int32_t> ids, std::vector<float> weights) {
  std::vector<int32_t> labels(ids.size(), kIgnored);
  bool plain = true;
  for (size_t i = 1; i < ids.size(); ++i) {  // nothing predicts the first token
    if (weights[i] > 0) labels[i] = ids[i];
    plain = plain && (weights[i] == 0 || weights[i] == 1);
  }
  if (plain) weights.clear();
  return {std::move(ids), std::move(labels), std::move(weights)};
}

StoredRow OfText(const std::string& text, const SampleTokenizer& with) {
  std::vector<int32_t> ids = with.tokenizer().Encode(text, {.add_special = true}).ids;
  const std::optional<int32_t> end = with.tokenizer().end_of_text();
  if (end && (ids.empty() || ids.back() != *end)) ids.push_back(*end);
  std::vector<float> all(ids.size(), 1);
  return WithLabels(std::move(ids), std::move(all));
}

bool HasAnswer(const Json& messages) {
  return std::ranges::any_of(messages, [](const Json& message) { return message.value("role", "") == "assistant"; });
}

// What a template does not render would be lost silently: messages of an unknown role, tools.
void RefuseLost(const Conversation& sample, const ChatTokens& tokens) {
  if (!tokens.lost.empty()) throw InputError(LostText(sample.messages, tokens.lost));
  const std::string tool = LostTool(sample.tools, tokens.text);
  if (tool.empty()) return;
  throw InputError("has the tool ", tool, ", which the chat template does not render; set ",
                   "data.template to one that does, or drop the tools with data.columns: [tools=unused]");
}

// Tokens as they are given. Placeholders of images are not trained, whatever the labels say.
StoredRow OfTokens(const StoredRow& given, const SampleTokenizer& with) {
  if (given.images.empty()) return given;
  StoredRow row = given;
  std::vector<std::string> sources;
  for (const RowImage& image : given.images) sources.push_back(image.source);
  row.images = FindImages(sources, *with.images(), row.ids);
  std::ranges::transform(row.ids, row.labels, row.labels.begin(), [&](int32_t id, int32_t label) {
    return id == with.images()->placeholder() ? kIgnored : label;
  });
  return row;
}

StoredRow OfConversation(const Conversation& sample, const SampleTokenizer& with) {
  const Json& messages = sample.messages;
  if (!HasAnswer(messages)) throw InputError("has no assistant turn, so there is nothing to train on");
  const bool lone_text = messages.size() == 1 && messages[0]["content"].is_string();
  if (with.options().records == Records::kText && lone_text)
    return OfText(messages[0]["content"].get<std::string>(), with);
  ChatTokens tokens = TokenizeChat(with.tokenizer(), with.chat(), messages,
                                   {.tools = sample.tools, .variables = sample.variables}, with.options().parts);
  RefuseLost(sample, tokens);
  std::vector<float> weights =
      tokens.Weights(with.options().records == Records::kText ? LossOn::kAll : with.options().loss_on, messages);
  std::vector<RowImage> images;
  if (with.options().sees || !sample.images.empty())
    images = ExpandImages(sample.images, *with.images(), tokens.ids, weights);
  StoredRow row = WithLabels(std::move(tokens.ids), std::move(weights));
  row.images = std::move(images);
  return row;
}

}  // namespace

const Tokenizer& SampleTokenizer::tokenizer() const {
  std::call_once(tokenizer_opened_, [this] { tokenizer_.emplace(options_.model); });
  return *tokenizer_;
}

const ChatTemplate& SampleTokenizer::chat() const {
  std::call_once(chat_opened_, [this] {
    chat_.emplace(ChatTemplate::Of(tokenizer(), options_.chat_template, options_.template_values));
  });
  return *chat_;
}

const std::shared_ptr<const ImageReader>& SampleTokenizer::images() const {
  std::call_once(images_opened_, [this] {
    images_ = std::make_shared<const ImageReader>(
        ImageReader::Options{options_.model, options_.min_pixels, options_.max_pixels});
  });
  return images_;
}

namespace {

StoredRow TokeniseAny(const Sample& sample, const SampleTokenizer& with) {
  if (const auto* row = std::get_if<StoredRow>(&sample)) return OfTokens(*row, with);
  if (const auto* conversation = std::get_if<Conversation>(&sample)) return OfConversation(*conversation, with);
  if (with.options().records == Records::kText) return OfText(std::get<PlainText>(sample).text, with);
  throw InputError("is plain text, which has no assistant turn; set stage: pt to train on all of it");
}

}  // namespace

StoredRow Tokenise(const Sample& sample, const SampleTokenizer& with) {
  StoredRow row = TokeniseAny(sample, with);
  if (with.options().sees && row.images.empty() && std::ranges::count(row.ids, with.images()->placeholder()) > 0) {
    throw InputError("has image placeholders (token ", with.images()->placeholder(),
                     "), but no image; remove them from its text, or name its images");
  }
  return row;
}

}  // namespace trireme
