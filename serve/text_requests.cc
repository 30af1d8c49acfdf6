#include "serve/text_requests.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/text_tokens.h"
#include "serve/fields.h"

namespace trireme {
namespace {

// Less than this is tokenised, however small the context is: its error then says how many tokens it has.
constexpr int64_t kSmallTextBytes = 64 << 10, kTokenBytes = 256;

[[noreturn]] void Fail(const std::string& param, const std::string& message,
                       const std::string& code = "invalid_value") {
  throw ApiError{.message = param + ": " + message, .param = param, .code = code};
}

// The place of an error: the input itself, or one of several.
std::string PlaceOf(const std::string& name, bool several, size_t index) {
  return several ? Concat(name, "[", index, "]") : name;
}

std::string ReadModel(Fields& fields, const ServedTexts& served) {
  const std::optional<std::string> name = fields.Text("model");
  if (!name) fields.Fail("model", "is missing");
  if (*name != served.name) throw TextModelNotFound(*name, served);
  return *name;
}

// How long texts are cut, as vLLM names it; 0: they are not, and longer ones are refused.
int64_t ReadTruncation(Fields& fields, const ServedTexts& served) {
  const auto most = fields.Integer("truncate_prompt_tokens", -1, served.context);
  if (most == 0) fields.Fail("truncate_prompt_tokens", "wanted -1, which is the model's maximum, or at least 1");
  return most == -1 ? served.context : most.value_or(0);
}

void CheckText(const std::string& text, const std::string& place, const ServedTexts& served, int64_t truncate) {
  if (IsBlank(text)) Fail(place, "is empty");
  const int64_t most = std::max(kSmallTextBytes, served.context * kTokenBytes);
  if (truncate > 0 || std::ssize(text) <= most) return;
  Fail(place,
       Concat("this model's maximum context length is ", served.context, " tokens; the text has ", text.size(),
              " bytes, which cannot be so few"),
       "context_length_exceeded");
}

TextTokens Checked(TextTokens tokens, const std::string& place, const ServedTexts& served) {
  if (tokens.empty()) Fail(place, "has no tokens");
  for (const int64_t token : tokens) {
    if (token < 0 || token >= served.vocabulary) Fail(place, Concat(token, " is no token id of this model"));
  }
  if (std::ssize(tokens) <= served.context) return tokens;
  Fail(place,
       Concat("this model's maximum context length is ", served.context, " tokens; the text has ", tokens.size(),
              "; shorten it, or send truncate_prompt_tokens: -1"),
       "context_length_exceeded");
}

// A text by itself, as training has it.
TextTokens TokensOf(const std::string& text, const std::string& prompt, const std::string& place,
                    const ServedTexts& served, int64_t truncate) {
  CheckText(text, place, served, truncate);
  TextOptions options = served.options;
  options.truncate = truncate;
  options.keys.set_query_prompt(prompt);
  const StoredRow row = TokeniseTexts({.texts = {text}, .values = {0}}, served.tokenizer, options);
  return Checked({row.ids.begin(), row.ids.end()}, place, served);
}

bool IsTokens(const Json& value) { return value.is_array() && !value.empty() && value[0].is_number(); }

TextTokens GivenTokens(const Json& list, const std::string& place, const ServedTexts& served, int64_t truncate) {
  TextTokens tokens;
  for (const Json& id : list) {
    if (!id.is_number_integer()) Fail(place, "wanted whole numbers, token ids");
    tokens.push_back(id.get<int64_t>());
  }
  if (truncate > 0 && std::ssize(tokens) > truncate) tokens.resize(static_cast<size_t>(truncate));
  return Checked(std::move(tokens), place, served);
}

void RefuseMany(const std::string& name, size_t count, const ServedTexts& served) {
  if (count == 0) Fail(name, "is empty");
  if (std::cmp_less_equal(count, served.most_texts)) return;
  Fail(name, Concat("has ", count, " texts; this server takes at most ", served.most_texts, " per request"));
}

// A text, texts, token ids, or lists of those.
std::vector<TextTokens> ReadInput(Fields& fields, const std::string& prompt, const ServedTexts& served) {
  const std::string name = "input";
  const Json* input = fields.Find(name);
  const int64_t truncate = ReadTruncation(fields, served);
  if (input == nullptr) fields.Fail(name, "is missing");
  const bool several = input->is_array() && !IsTokens(*input);
  const Json list = several ? *input : Json::array({*input});
  RefuseMany(name, list.size(), served);
  std::vector<TextTokens> texts;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = PlaceOf(name, several, i);
    if (list[i].is_string()) {
      texts.push_back(TokensOf(list[i].get<std::string>(), prompt, place, served, truncate));
    } else if (IsTokens(list[i])) {
      if (!prompt.empty()) Fail(place, "tokens are taken as they are and have no prompt; send text, or leave it out");
      texts.push_back(GivenTokens(list[i], place, served, truncate));
    } else {
      Fail(place, "wanted a text or a list of token ids that is not empty");
    }
  }
  return texts;
}

// The name of a prompt, as sentence-transformers has them, or of a use, as Cohere and others have it.
std::string ReadPrompt(Fields& fields, const ServedTexts& served) {
  const std::optional<std::string> name = fields.Text("prompt_name"), use = fields.Text("input_type");
  if (name && use) fields.Fail("input_type", "is for requests without prompt_name");
  std::string wanted = name.value_or(served.default_prompt);
  if (use) {
    const std::map<std::string, std::string> uses = {{"query", "query"},
                                                     {"search_query", "query"},
                                                     {"document", "document"},
                                                     {"passage", "document"},
                                                     {"search_document", "document"}};
    const auto found = uses.find(*use);
    if (found == uses.end())
      fields.Fail("input_type", "wanted query, document, search_query, search_document or passage");
    wanted = found->second;
    if (!served.prompts.contains(wanted)) return "";  // the model has none for it
  }
  if (wanted.empty()) return "";
  const auto prompt = served.prompts.find(wanted);
  if (prompt != served.prompts.end()) return prompt->second;
  std::vector<std::string> names;
  for (const auto& [known, text] : served.prompts) names.push_back(known);
  fields.Fail("prompt_name", "'" + wanted.substr(0, 60) + "' is no prompt of this model; " +
                                 (names.empty() ? "it has none" : "there are " + Join(names)));
}

int64_t ReadDimensions(Fields& fields, const ServedTexts& served) {
  const auto wanted = fields.Integer("dimensions", 1, INT32_MAX);
  if (!wanted || *wanted == served.numbers) return served.numbers;
  std::set<int64_t> sizes(served.options.keys.matryoshka().begin(), served.options.keys.matryoshka().end());
  if (sizes.contains(*wanted)) return *wanted;
  sizes.insert(served.numbers);
  fields.Fail("dimensions", Concat("this model's vectors have ", Join(sizes), " numbers, not ", *wanted,
                                   "; of a Matryoshka model whose config.json does not say so, start the server with ",
                                   "--set retrieval.matryoshka=[…]"));
}

// A text, or an object with one, as Cohere and Jina take them.
std::string DocumentOf(const Json& value, const std::string& place) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.size() == 1 && value.contains("text") && value["text"].is_string()) {
    return value["text"].get<std::string>();
  }
  Fail(place, "wanted a text, or an object with text alone");
}

std::vector<std::string> ReadDocuments(Fields& fields, const ServedTexts& served, int64_t truncate) {
  const Json* list = fields.Find("documents");
  if (list == nullptr) fields.Fail("documents", "is missing");
  if (!list->is_array()) fields.Fail("documents", "wanted a list of texts");
  RefuseMany("documents", list->size(), served);
  std::vector<std::string> documents;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string place = PlaceOf("documents", true, i);
    documents.push_back(DocumentOf((*list)[i], place));
    CheckText(documents.back(), place, served, truncate);
  }
  return documents;
}

}  // namespace

ApiError TextModelNotFound(const std::string& name, const ServedTexts& served) {
  return {.status = 404,
          .message = "there is no model '" + name.substr(0, 100) + "'; there is " + served.name,
          .param = "model",
          .code = "model_not_found"};
}

EmbeddingRequest ReadEmbedding(const Json& body, const ServedTexts& served) {
  Fields fields(body, "");
  EmbeddingRequest request{.model = ReadModel(fields, served)};
  request.texts = ReadInput(fields, ReadPrompt(fields, served), served);
  request.dimensions = ReadDimensions(fields, served);
  const std::string format = fields.Text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.Fail("encoding_format", "wanted float or base64");
  request.base64 = format == "base64";
  fields.Accept({"user"});
  fields.Finish();
  return request;
}

RerankRequest ReadRerank(const Json& body, const ServedTexts& served) {
  Fields fields(body, "");
  RerankRequest request{.model = ReadModel(fields, served)};
  const int64_t truncate = ReadTruncation(fields, served);
  const std::optional<std::string> query = fields.Text("query");
  if (!query) fields.Fail("query", "is missing");
  CheckText(*query, "query", served, truncate);
  request.documents = ReadDocuments(fields, served, truncate);
  const auto count = std::ssize(request.documents);
  request.top_n = fields.Integer("top_n", 0, INT32_MAX).value_or(0);
  request.top_n = request.top_n == 0 ? count : std::min<int64_t>(request.top_n, count);
  request.return_documents = fields.Switch("return_documents").value_or(false);
  request.activation = fields.Switch("use_activation").value_or(true);
  fields.Accept({"user"});
  fields.Finish();
  TextOptions options = served.options;
  options.truncate = truncate;
  for (size_t i = 0; i < request.documents.size(); ++i) {
    const StoredRow row =
        TokeniseTexts({.texts = {*query, request.documents[i]}, .values = {0, 0}}, served.tokenizer, options);
    request.texts.push_back(Checked({row.ids.begin(), row.ids.end()}, PlaceOf("documents", true, i), served));
  }
  return request;
}

ClassifyRequest ReadClassify(const Json& body, const ServedTexts& served) {
  Fields fields(body, "");
  ClassifyRequest request{.model = ReadModel(fields, served)};
  request.texts = ReadInput(fields, "", served);
  request.activation = fields.Switch("use_activation").value_or(true);
  fields.Accept({"user"});
  fields.Finish();
  return request;
}

}  // namespace trireme
