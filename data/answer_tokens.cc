#include "data/answer_tokens.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "data/image_tokens.h"

namespace trireme {
namespace {

using TokenIds = std::vector<int32_t>;

size_t CommonTokens(const TokenIds& a, const TokenIds& b) {
  const auto [end, _] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end - a.begin());
}

StoredRow RowOf(TokenIds ids, size_t prompt, float value) {
  TokenIds labels(ids.size(), static_cast<int32_t>(kNotTrained));
  // Nothing predicts the first token.
  for (size_t i = std::max<size_t>(prompt, 1); i < ids.size(); ++i) labels[i] = ids[i];
  return {.ids = std::move(ids), .labels = std::move(labels), .value = value};
}

// The images of a conversation: their placeholders, all in the prompt, become as many as they have tokens. `prompt`
// moves with them.
std::vector<RowImage> PutImages(const std::vector<RowImage>& images, const ImageReader& reader, TokenIds& ids,
                                size_t& prompt) {
  const auto border = ids.begin() + static_cast<std::ptrdiff_t>(prompt);
  if (std::find(border, ids.end(), static_cast<int32_t>(reader.placeholder())) != ids.end()) {
    throw InputError("an answer has an image placeholder (token ", reader.placeholder(),
                     "); images stand in the prompt: remove it from the answer's text");
  }
  std::vector<float> after_prompt(ids.size(), 0);  // by token: 1 from the answer on
  std::fill(after_prompt.begin() + static_cast<std::ptrdiff_t>(prompt), after_prompt.end(), 1);
  std::vector<RowImage> placed = ExpandImages(images, reader, ids, after_prompt);
  prompt = static_cast<size_t>(std::ranges::find(after_prompt, 1.0F) - after_prompt.begin());
  return placed;
}

// Of records of tokens: placeholders stand in the prompt, each for one of the images.
std::vector<RowImage> FindInPrompt(const TokenAnswers& tokens, const SampleTokenizer& with) {
  if (!with.options().sees && tokens.images.empty()) return {};
  for (const TokenIds& answer : tokens.answers) {
    if (std::ranges::find(answer, static_cast<int32_t>(with.images()->placeholder())) == answer.end()) continue;
    throw InputError("an answer has an image placeholder (token ", with.images()->placeholder(),
                     "); images stand in the prompt: remove it from the answer's tokens");
  }
  return FindPromptImages(tokens.images, *with.images(), tokens.prompt);
}

void CheckLength(size_t prompt, const SampleTokenizer& with) {
  const int64_t longest = with.options().max_length;
  if (longest == 0 || static_cast<int64_t>(prompt) < longest) return;
  throw InputError("the prompt alone has ", prompt, " tokens, which leaves no room for an answer within ",
                   "data.max_length = ", longest, "; raise it, or leave the record out with data.on_error: skip");
}

// Prompt and answer as the tokenizer sees them, each alone and together.
struct Encodings {
  TokenIds prompt;
  std::vector<TokenIds> whole;
};

Encodings EncodeMessages(const TextAnswers& sample, const SampleTokenizer& with) {
  const RenderOptions options{.tools = sample.tools, .variables = sample.variables};
  RenderOptions prompted = options;
  prompted.add_generation_prompt = true;
  Encodings encodings{.prompt = with.tokenizer().Encode(with.chat().Render(sample.prompt, prompted)).ids, .whole = {}};
  for (const Json& answer : sample.answers) {
    Json messages = sample.prompt;
    messages.insert(messages.end(), answer.begin(), answer.end());
    encodings.whole.push_back(with.tokenizer().Encode(with.chat().RenderAll(messages, options)).ids);
  }
  return encodings;
}

// Plain texts get what the tokenizer puts around every text, and the token that ends one.
Encodings EncodeTexts(const TextAnswers& sample, const SampleTokenizer& with) {
  const Tokenizer& tokenizer = with.tokenizer();
  const std::string prompt = sample.prompt.get<std::string>(), end = tokenizer.special_tokens().value("eos_token", "");
  Encodings encodings{.prompt = tokenizer.Encode(prompt, {.add_special = true}).ids, .whole = {}};
  for (const Json& answer : sample.answers) {
    std::string text = answer.get<std::string>();
    if (!text.ends_with(end)) text += end;
    encodings.whole.push_back(tokenizer.Encode(prompt + text, {.add_special = true}).ids);
  }
  return encodings;
}

std::vector<StoredRow> OfTexts(const TextAnswers& sample, const SampleTokenizer& with) {
  Encodings encodings = sample.prompt.is_string() ? EncodeTexts(sample, with) : EncodeMessages(sample, with);
  std::vector<size_t> prompts;
  for (const TokenIds& whole : encodings.whole) prompts.push_back(CommonTokens(encodings.prompt, whole));
  if (with.options().records == Records::kPairs) {
    std::fill(prompts.begin(), prompts.end(), *std::min_element(prompts.begin(), prompts.end()));
  }
  const bool sees = with.options().sees || !sample.images.empty();
  const std::vector<RowImage> images = sees ? HeadersOf(sample.images, *with.images()) : std::vector<RowImage>();
  std::vector<StoredRow> rows;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i] == encodings.whole[i].size()) throw InputError("an answer has no token of its own");
    std::vector<RowImage> placed;
    if (sees) placed = PutImages(images, *with.images(), encodings.whole[i], prompts[i]);
    CheckLength(prompts[i], with);
    rows.push_back(RowOf(std::move(encodings.whole[i]), prompts[i], sample.values[i]));
    rows.back().images = std::move(placed);
  }
  return rows;
}

}  // namespace

std::vector<StoredRow> TokeniseAnswers(const AnswerSample& sample, const SampleTokenizer& with) {
  if (const auto* texts = std::get_if<TextAnswers>(&sample)) return OfTexts(*texts, with);
  const auto& tokens = std::get<TokenAnswers>(sample);
  CheckLength(tokens.prompt.size(), with);
  const std::vector<RowImage> images = FindInPrompt(tokens, with);
  std::vector<StoredRow> rows;
  for (size_t i = 0; i < tokens.answers.size(); ++i) {
    TokenIds ids = tokens.prompt;
    ids.insert(ids.end(), tokens.answers[i].begin(), tokens.answers[i].end());
    rows.push_back(RowOf(std::move(ids), tokens.prompt.size(), tokens.values[i]));
    rows.back().images = images;
  }
  return rows;
}

std::vector<StoredRow> TokeniseAnswers(const AnswerSample& sample, const SampleTokenizer& with, int64_t vocabulary) {
  std::vector<StoredRow> rows = TokeniseAnswers(sample, with);
  for (const StoredRow& row : rows) {
    for (const int32_t id : row.ids) {
      if (id >= vocabulary) throw InputError("has the token ", id, ", outside the vocabulary of ", vocabulary);
    }
  }
  return rows;
}

}  // namespace trireme
