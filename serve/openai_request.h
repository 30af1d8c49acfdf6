// OpenAI's requests for completions and chats, as the engine needs them: prompts as tokens, sampling, limits.
// Each field is honoured or refused. Knows neither HTTP nor the engine; ApiError says what is wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "generation/sampler.h"
#include "generation/text/completion.h"
#include "generation/text/image_prompts.h"
#include "serve/adapter_names.h"
#include "serve/generation_defaults.h"
#include "serve/tool_calls.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "web/http/http.h"

namespace trireme {

// What is served, and what one request may ask for.
struct ServedModel {
  const Tokenizer& tokenizer;
  const ChatTemplate* chat = nullptr;  // nullptr: the model has none
  std::string name;
  const AdapterNames* adapters = nullptr;  // further names; nullptr: none
  int64_t created = 0;                     // unix seconds
  int64_t vocabulary = 0;
  int64_t context = 0;               // tokens of prompt and answer together
  int64_t token_bytes = 256;         // that one token stands for at most
  std::set<int64_t> ends = {};       // that end an answer
  std::set<int64_t> turn_ends = {};  // the same in chats
  int64_t most_rows = 128;           // prompts times choices
  ToolForm tool_form = nullptr;      // in which it writes tool calls; nullptr: it has no tools
  std::string why_no_json = {};      // for which its tokenizer cannot be restricted to JSON; empty: it can
  int64_t image_token = -1;          // of a model that sees; -1: it does not
  std::shared_ptr<const ImageReader> images = {};  // of its chats; nullptr: it takes none
  int64_t most_images = 0;                         // per request
  GenerationDefaults defaults = {};
};

struct CompletionRequest {
  bool chat = false;
  std::string model = {};  // as asked for
  int64_t adapter = -1;    // the engine's id; -1: the model itself
  std::vector<std::vector<int64_t>> prompts = {};
  std::vector<PromptPixels> images = {};  // of a chat's only prompt
  std::vector<std::string> echoed = {};   // the prompts' texts, if they are to be repeated
  int64_t n = 1;
  int64_t max_tokens = 0;  // by prompt: no more than its context leaves
  Sampling sampling = {};
  std::optional<int64_t> top = {};         // log-probabilities, and of how many likely tokens
  bool prompt_log_probs = false;           // of the repeated prompts, too
  std::optional<int64_t> prompt_top = {};  // the same of prompts as vLLM's prompt_logprobs
  CompletionRules rules = {};
  bool stream = false, include_usage = false;
  std::string cache_salt = {};
  ToolForm tools = nullptr;    // of calls that are looked for in the answer; nullptr: none are
  bool parallel_calls = true;  // more than one of them
  bool json = false;           // the answer is one JSON object
  bool token_ids = false;      // of prompts and answers are part of the reply, as vLLM's return_token_ids
};

// Of how many likely tokens the engine finds the log-probabilities: what the request shows of answers and prompts.
inline std::optional<int64_t> MostLikely(const CompletionRequest& request) {
  return std::max(request.top, request.prompt_top);  // none is less than any number
}

// Status 404, with the names that there are.
ApiError ModelNotFound(const std::string& name, const ServedModel& model);

CompletionRequest ReadChat(const Json& body, const ServedModel& model);
CompletionRequest ReadCompletion(const Json& body, const ServedModel& model);
// Of {"prompt"} or {"messages"}.
std::vector<int64_t> ReadTokenize(const Json& body, const ServedModel& model);

}  // namespace trireme
