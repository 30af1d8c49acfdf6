#include "serve/openai_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "generation/text/prompts.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/openai_messages.h"

namespace trireme {
namespace {

constexpr int64_t kMostStops = 4, kLongestStop = 256, kMostBiases = 1024, kMostTop = 20, kMostChoices = 64,
                  kLongestSalt = 256;
// Less than this is tokenised, however small the context is: its error then says how many tokens it has.
constexpr int64_t kSmallPromptBytes = 64 << 10, kFewMessages = 1024;

// The model itself, or an adapter on it.
void ReadModel(Fields& fields, const ServedModel& model, CompletionRequest& request) {
  const std::optional<std::string> name = fields.Text("model");
  if (!name) fields.Fail("model", "is missing");
  request.model = *name;
  if (*name == model.name) return;
  const auto adapter = model.adapters == nullptr ? std::nullopt : model.adapters->Find(*name);
  if (!adapter) throw ModelNotFound(*name, model);
  request.adapter = adapter->id;
}

uint64_t SeedOf(Fields& fields) {
  if (const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX)) return static_cast<uint64_t>(*seed);
  uint64_t fresh = 0;
  for (const char byte : net::RandomBytes(sizeof(fresh))) fresh = fresh << 8U | static_cast<uint8_t>(byte);
  return fresh;
}

std::map<int64_t, double> BiasOf(Fields& fields, const ServedModel& model) {
  const Json* map = fields.Find("logit_bias");
  if (map == nullptr) return {};
  if (!map->is_object() || std::ssize(*map) > kMostBiases) {
    fields.Fail("logit_bias", Concat("wanted an object of token ids with a number each, at most ", kMostBiases));
  }
  std::map<int64_t, double> biases;
  for (const auto& [key, value] : map->items()) {
    int64_t token = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool known =
        failure == std::errc() && end == key.data() + key.size() && token >= 0 && token < model.vocabulary;
    if (!known) fields.Fail("logit_bias", "'" + key.substr(0, 30) + "' is no token id of this model");
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 100)) {
      fields.Fail("logit_bias", "wanted numbers from -100 to 100");
    }
    biases[token] = value.get<double>();
  }
  return biases;
}

Sampling SamplingOf(Fields& fields, const ServedModel& model) {
  const GenerationDefaults& otherwise = model.defaults;
  const auto top_k = fields.Integer("top_k", -1, INT32_MAX);
  Sampling sampling{
      .temperature = fields.Number("temperature", 0, 2).value_or(otherwise.temperature),
      .top_k = std::max<int64_t>(top_k.value_or(otherwise.top_k), 0),
      .top_p = fields.Number("top_p", 0, 1).value_or(otherwise.top_p),
      .min_p = fields.Number("min_p", 0, 1).value_or(otherwise.min_p),
      .presence_penalty = fields.Number("presence_penalty", -2, 2).value_or(otherwise.presence_penalty),
      .frequency_penalty = fields.Number("frequency_penalty", -2, 2).value_or(otherwise.frequency_penalty),
      .repetition_penalty = fields.Number("repetition_penalty", 0, 100).value_or(otherwise.repetition_penalty),
      .bias = BiasOf(fields, model),
      .seed = SeedOf(fields)};
  if (sampling.top_p == 0) fields.Fail("top_p", "wanted a probability above 0");
  if (sampling.repetition_penalty == 0) fields.Fail("repetition_penalty", "wanted a factor above 0");
  return sampling;
}

std::vector<std::string> StopsOf(Fields& fields) {
  const Json* given = fields.Find("stop");
  if (given == nullptr) return {};
  const Json list = given->is_array() ? *given : Json::array({*given});
  std::vector<std::string> stops;
  for (const Json& stop : list) {
    const bool fits = stop.is_string() && !stop.get_ref<const std::string&>().empty() &&
                      std::ssize(stop.get_ref<const std::string&>()) <= kLongestStop;
    if (!fits || std::ssize(list) > kMostStops) {
      fields.Fail("stop", Concat("wanted a text of 1 to ", kLongestStop, " bytes, or a list of at most ", kMostStops));
    }
    stops.push_back(stop.get<std::string>());
  }
  return stops;
}

void ReadEnds(Fields& fields, const ServedModel& model, CompletionRequest& request) {
  request.rules.stops = StopsOf(fields);
  request.rules.ends = request.chat ? model.turn_ends : model.ends;
  if (fields.Switch("ignore_eos").value_or(false)) request.rules.ends.clear();
  if (const Json* ids = fields.Find("stop_token_ids")) {
    if (!ids->is_array() || ids->size() > 64) fields.Fail("stop_token_ids", "wanted a list of at most 64 token ids");
    for (const Json& id : *ids) {
      const bool known = id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < model.vocabulary;
      if (!known) fields.Fail("stop_token_ids", "has what is no token id of this model");
      request.rules.ends.insert(id.get<int64_t>());
    }
  }
  request.sampling.min_tokens = fields.Integer("min_tokens", 0, model.context).value_or(0);
  request.sampling.ends = request.rules.ends;
}

void ReadStream(Fields& fields, CompletionRequest& request) {
  request.stream = fields.Switch("stream").value_or(false);
  const Json* options = fields.Find("stream_options");
  if (options == nullptr) return;
  if (!request.stream) fields.Fail("stream_options", "is only for requests with stream: true");
  Fields inner(*options, "stream_options");
  request.include_usage = inner.Switch("include_usage").value_or(false);
  inner.Accept({"include_obfuscation"});
  inner.Finish();
}

// What both kinds share; the prompts are there.
void ReadCommon(Fields& fields, const ServedModel& model, int64_t fallback, CompletionRequest& request) {
  ReadModel(fields, model, request);
  request.n = fields.Integer("n", 1, kMostChoices).value_or(1);
  request.sampling = SamplingOf(fields, model);
  ReadEnds(fields, model, request);
  ReadStream(fields, request);
  request.token_ids = fields.Switch("return_token_ids").value_or(false);
  if (request.token_ids && request.stream) fields.Fail("return_token_ids", "is only for requests without stream");
  request.prompt_top = fields.Integer("prompt_logprobs", 0, kMostTop);
  if (request.prompt_top && request.stream) fields.Fail("prompt_logprobs", "is only for requests without stream");
  request.cache_salt = fields.Text("cache_salt").value_or("");
  if (std::ssize(request.cache_salt) > kLongestSalt) {
    fields.Fail("cache_salt", Concat("wanted at most ", kLongestSalt, " bytes"));
  }
  const auto newer = fields.Integer("max_completion_tokens", 1, INT32_MAX),
             older = fields.Integer("max_tokens", 1, INT32_MAX);
  request.max_tokens = newer ? *newer : older.value_or(model.defaults.max_tokens.value_or(fallback));
  fields.Accept({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
}

ApiError TooLong(const ServedModel& model, const std::string& param, const std::string& found) {
  return {.message = Concat("this model's maximum context length is ", model.context, " tokens; ", found),
          .param = param,
          .code = "context_length_exceeded"};
}

// Before templates and the tokenizer see a text: one that no context can hold costs nothing.
void RefuseLongText(const ServedModel& model, const std::string& param, int64_t bytes) {
  const int64_t most = std::max(kSmallPromptBytes, model.context * model.token_bytes);
  if (bytes > most)
    throw TooLong(model, param, Concat("the prompt has ", bytes, " bytes, which cannot be so few tokens"));
}

int64_t TextBytes(const Json& value) {
  if (value.is_string()) return std::ssize(value.get_ref<const std::string&>());
  int64_t bytes = 0;
  if (value.is_structured()) {
    for (const Json& inner : value) bytes += TextBytes(inner);
  }
  return bytes;
}

void RefuseManyRows(const ServedModel& model, int64_t rows) {
  if (rows <= model.most_rows) return;
  throw ApiError{
      .message = Concat(rows, " answers are asked for; this server gives at most ", model.most_rows, " per request"),
      .param = "n",
      .code = "invalid_value"};
}

// has_images: placeholders of images are what the chat's images made of them.
void CheckPrompts(const ServedModel& model, const std::string& param, const CompletionRequest& request,
                  bool has_images = false) {
  RefuseManyRows(model, std::ssize(request.prompts) * request.n);
  for (const Tokens& prompt : request.prompts) {
    if (prompt.empty()) throw ApiError{.message = param + ": has no tokens", .param = param, .code = "invalid_value"};
    for (const int64_t token : prompt) {
      if (token == model.image_token && !has_images) {
        throw ApiError{
            .message = Concat(param, ": has the token of images (", token,
                              ") without an image; send images as parts of ", "type image_url in /v1/chat/completions"),
            .param = param,
            .code = "invalid_value"};
      }
      if (token >= 0 && token < model.vocabulary) continue;
      throw ApiError{.message = Concat(param, ": ", token, " is no token id of this model"),
                     .param = param,
                     .code = "invalid_value"};
    }
    if (std::ssize(prompt) < model.context) continue;
    throw TooLong(model, param, Concat("the prompt has ", prompt.size()));
  }
}

// The template's variables and tools.
RenderOptions RenderOptionsOf(Fields& fields, const ServedModel& model, Json tools) {
  RenderOptions options{.add_generation_prompt = fields.Switch("add_generation_prompt").value_or(true)};
  options.tools = std::move(tools);
  if (const Json* values = fields.Find("chat_template_kwargs")) {
    if (!values->is_object()) fields.Fail("chat_template_kwargs", "wanted an object");
    options.variables = *values;
  }
  const bool has_effort = model.chat->source().find("reasoning_effort") != std::string::npos;
  if (!has_effort) fields.RefuseAny("reasoning_effort", "this model's chat template has no such setting; leave it out");
  if (const auto effort = fields.Text("reasoning_effort")) options.variables["reasoning_effort"] = *effort;
  return options;
}

// Errors about an image have its part as their parameter.
template <typename Call>
auto AboutImage(const std::string& param, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw ApiError{.message = Concat(param, ": ", error.what()), .param = param, .code = "invalid_image"};
  }
}

// A chat as tokens, and its images by their headers alone.
struct ChatWithImages {
  Tokens tokens;
  std::vector<MessageImage> images = {};
  std::vector<ImageGrid> grids = {};
};

// Each placeholder of the template becomes as many as its image has tokens.
void ExpandImages(const ServedModel& model, ChatWithImages& chat) {
  for (const MessageImage& image : chat.images) {
    chat.grids.push_back(AboutImage(image.param, [&] { return model.images->GridOf(image.url); }));
  }
  if (!chat.images.empty()) {
    chat.tokens = AboutImage("messages", [&] { return WithImageTokens(chat.tokens, chat.grids, *model.images); });
  }
}

ChatWithImages RenderChat(Fields& fields, const ServedModel& model, Json tools) {
  if (model.chat == nullptr) {
    throw ApiError{.message = "this model has no chat template; use /v1/completions",
                   .param = "messages",
                   .code = "no_chat_template"};
  }
  ChatWithImages chat;
  if (const Json* given = fields.Find("messages"); given != nullptr && given->is_array()) {
    const int64_t count = std::ssize(*given);
    if (count > std::max(kFewMessages, model.context))
      throw TooLong(model, "messages", Concat("there are ", count, " messages"));
  }
  const Json messages = ReadMessages(fields, model.images == nullptr ? 0 : model.most_images, chat.images);
  RefuseLongText(model, "messages", TextBytes(messages) + TextBytes(tools));
  const RenderOptions options = RenderOptionsOf(fields, model, std::move(tools));
  const auto tokens_of = [&](const Json& each) -> Tokens {
    const std::string text = model.chat->RenderAll(each, options);
    RefuseLongText(model, "messages", std::ssize(text));
    const std::vector<int32_t> ids = model.tokenizer.Encode(text).ids;
    return {ids.begin(), ids.end()};
  };
  const auto render = [&]() -> Tokens {
    try {
      return tokens_of(messages);
    } catch (const Error& error) {
      const Json as_text = WithArgumentsAsText(messages);
      try {
        if (as_text != messages) return tokens_of(as_text);
      } catch (const Error&) {  // the first error is the one to report
      }
      throw ApiError{.message = std::string("messages: ") + error.what(), .param = "messages", .code = "invalid_value"};
    }
  };
  chat.tokens = render();
  ExpandImages(model, chat);
  return chat;
}

// Which tools the model sees. With tool_choice none it sees none, so that it calls none.
Json ToolsOf(Fields& fields, const ServedModel& model, CompletionRequest& request) {
  Json tools = ReadTools(fields);
  request.parallel_calls = fields.Switch("parallel_tool_calls").value_or(true);
  const Json* choice = fields.Find("tool_choice");
  if (choice != nullptr && *choice != "none" && *choice != "auto") {
    fields.Fail("tool_choice", "wanted auto or none: nothing here can make sure that a tool is called");
  }
  if (tools.is_null() && choice != nullptr && *choice == "auto") fields.Fail("tool_choice", "there are no tools");
  if (tools.is_null() || (choice != nullptr && *choice == "none")) return nullptr;
  if (model.tool_form == nullptr) {
    fields.Fail("tools", "this model's chat template shows no form of tool calls that is known here");
  }
  request.tools = model.tool_form;
  request.rules.keep_special = true;  // marks of calls may be special tokens
  return tools;
}

// {"type": "text"}, or an object of any content.
bool WantsJson(Fields& fields, const ServedModel& model) {
  const Json* format = fields.Find("response_format");
  if (format == nullptr || *format == Json{{"type", "text"}}) return false;
  if (*format != Json{{"type", "json_object"}}) {
    fields.Fail("response_format",
                "wanted {\"type\": \"text\"} or {\"type\": \"json_object\"}; schemas are not supported");
  }
  if (!model.why_no_json.empty()) fields.Fail("response_format", "json_object is not supported: " + model.why_no_json);
  return true;
}

Tokens IdsOf(Fields& fields, const Json& list) {
  Tokens tokens;
  for (const Json& id : list) {
    if (!id.is_number_integer()) fields.Fail("prompt", "wanted a text, token ids, or a list of either");
    tokens.push_back(id.get<int64_t>());
  }
  return tokens;
}

// A text, texts, token ids, or lists of ids.
void ReadPrompts(Fields& fields, const ServedModel& model, bool echo, CompletionRequest& request) {
  const Json* given = fields.Find("prompt");
  if (given == nullptr) fields.Fail("prompt", "is missing");
  const bool ids = given->is_array() && !given->empty() && given->front().is_number();
  if (given->is_array() && !ids) RefuseManyRows(model, std::ssize(*given) * request.n);
  for (const Json& prompt : given->is_array() && !ids ? *given : Json::array({*given})) {
    if (prompt.is_string()) {
      RefuseLongText(model, "prompt", TextBytes(prompt));
      request.prompts.push_back(TextPrompt(model.tokenizer, prompt.get<std::string>()));
    } else if (prompt.is_array()) {
      request.prompts.push_back(IdsOf(fields, prompt));
    } else {
      fields.Fail("prompt", "wanted a text, token ids, or a list of either");
    }
    if (!echo) continue;
    const Tokens& tokens = request.prompts.back();
    request.echoed.push_back(prompt.is_string()
                                 ? prompt.get<std::string>()
                                 : model.tokenizer.Decode(std::vector<int32_t>(tokens.begin(), tokens.end())));
  }
  if (request.prompts.empty()) fields.Fail("prompt", "is empty");
}

}  // namespace

ApiError ModelNotFound(const std::string& name, const ServedModel& model) {
  std::string names = "'" + model.name + "'";
  if (model.adapters != nullptr) {
    for (const NamedAdapter& adapter : model.adapters->All()) names += ", '" + adapter.name + "'";
  }
  return {.status = 404,
          .message = "the model '" + name.substr(0, 100) + "' does not exist; this server has " + names,
          .param = "model",
          .code = "model_not_found"};
}

CompletionRequest ReadChat(const Json& body, const ServedModel& model) {
  Fields fields(body, "");
  CompletionRequest request{.chat = true};
  ReadCommon(fields, model, model.context, request);
  const bool log_probs = fields.Switch("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs", 0, kMostTop);
  if (top && !log_probs) fields.Fail("top_logprobs", "is only for requests with logprobs: true");
  if (log_probs) request.top = top.value_or(0);
  for (const char* name : {"functions", "function_call"}) fields.Refuse(name, "is not supported; use tools");
  request.json = WantsJson(fields, model);
  for (const char* name : {"audio", "prediction", "continue_final_message"}) fields.Refuse(name, "is not supported");
  fields.RefuseAny("web_search_options", "is not supported: this server searches nothing");  // {} asks for it, too
  if (fields.Text("verbosity") != "medium")
    fields.RefuseAny("verbosity", "only medium, which changes nothing, is supported");
  if (const Json* modes = fields.Find("modalities"); modes != nullptr && *modes != Json::array({"text"})) {
    fields.Fail("modalities", "only [\"text\"] is supported");
  }
  ChatWithImages chat = RenderChat(fields, model, ToolsOf(fields, model, request));
  request.prompts.push_back(std::move(chat.tokens));
  if (request.json && request.tools != nullptr) {
    fields.Fail("response_format", "json_object together with tools is not supported; set tool_choice to none");
  }
  fields.Finish();
  CheckPrompts(model, "messages", request, !chat.images.empty());
  for (size_t i = 0; i < chat.images.size(); ++i) {  // decoded only where the prompt has room for them
    request.images.push_back(
        AboutImage(chat.images[i].param, [&] { return LoadPixels(chat.images[i].url, chat.grids[i], *model.images); }));
  }
  return request;
}

CompletionRequest ReadCompletion(const Json& body, const ServedModel& model) {
  Fields fields(body, "");
  CompletionRequest request;
  ReadCommon(fields, model, 16, request);
  request.top = fields.Integer("logprobs", 0, kMostTop);
  const bool echo = fields.Switch("echo").value_or(false);
  request.prompt_log_probs = echo && request.top;
  if (request.prompt_log_probs && request.stream)
    fields.Fail("echo", "together with logprobs is only for requests without stream");
  fields.Refuse("suffix", "is not supported");
  if (const auto best = fields.Integer("best_of", 1, kMostChoices); best && *best != request.n) {
    fields.Fail("best_of", "only the value of n is supported");
  }
  ReadPrompts(fields, model, echo, request);
  fields.Finish();
  CheckPrompts(model, "prompt", request);
  return request;
}

std::vector<int64_t> ReadTokenize(const Json& body, const ServedModel& model) {
  Fields fields(body, "");
  CompletionRequest request;
  if (body.is_object() && body.contains("model")) ReadModel(fields, model, request);
  if (fields.Find("messages") != nullptr) {
    request.prompts.push_back(RenderChat(fields, model, ToolsOf(fields, model, request)).tokens);
  } else {
    ReadPrompts(fields, model, false, request);
  }
  fields.Finish();
  if (request.prompts.size() != 1) fields.Fail("prompt", "wanted one text");
  return request.prompts[0];
}

}  // namespace trireme
