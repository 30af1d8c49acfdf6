#include "train/rollouts/completion_endpoint.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"

namespace trireme {
namespace {

constexpr char kEndpointKey[] = "rl.sampler.endpoint";

HttpTarget PrefixOf(const std::string& endpoint) {
  HttpTarget target = ParseHttpTarget(endpoint, kEndpointKey);
  while (target.path.ends_with('/')) target.path.pop_back();
  return target;
}

std::string KeyIn(const std::string& file) {
  if (file.empty()) return "";
  const std::string text = ReadTextFile(file), key = text.substr(0, text.find_first_of("\r\n"));
  const bool plain = !key.empty() && std::ranges::all_of(key, [](char c) { return c > ' ' && c < 127; });
  if (!plain) throw InputError("rl.sampler.key_file ", file, ": its first line is not an API key; wanted one word");
  return key;
}

bool IsWorthRepeating(int status) { return status == 408 || status == 429 || status >= 500; }

// Pauses before the next try, unless nobody waits for it.
void PauseBefore(int next, const std::function<bool()>& gives_up) {
  const double seconds = std::min(std::pow(2.0, next - 1), 30.0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end && !(gives_up && gives_up())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

bool HasComparableLogProbs(const Config& config) {
  return config.rl().sampler().log_probs() == SAMPLER_LOG_PROBS_PROCESSED || config.rl().temperature() == 1;
}

CompletionEndpoint::CompletionEndpoint(const Config& config, EndpointOptions options)
    : config_(config),
      options_(std::move(options)),
      target_(PrefixOf(config.rl().sampler().endpoint())),
      who_("the sampler " + config.rl().sampler().endpoint()),
      api_key_(KeyIn(config.rl().sampler().key_file())),
      model_(config.rl().sampler().model()) {}

void CompletionEndpoint::Fail(const std::string& what) const { throw RuntimeError(who_, " ", what); }

HttpResult CompletionEndpoint::AskOnce(const std::string& path, const std::string& body) const {
  HttpTarget target = target_;
  target.path += path;
  return AskHttp(target, {.body = body,
                          .api_key = api_key_,
                          .who = who_,
                          .limit = "rl.sampler.seconds",
                          .seconds = config_.rl().sampler().seconds(),
                          .gives_up = options_.gives_up});
}

std::string CompletionEndpoint::Ask(const std::string& path, const std::string& body) {
  for (int tries = 1;; ++tries) {
    std::string why;
    bool again = true;
    try {
      HttpResult result = AskOnce(path, body);
      if (result.status / 100 == 2) return std::move(result.body);
      why = Concat(who_, " answered ", path, " with status ", result.reason, ": ", result.body.substr(0, 300));
      again = IsWorthRepeating(result.status);
    } catch (const Error& error) {
      why = error.what();
    }
    const bool left = StopRequested() || (options_.gives_up && options_.gives_up());
    if (!again || left || tries > config_.rl().sampler().retries()) throw RuntimeError(why);
    ++repeats_;
    TRIREME_LOG(WARNING) << why << "; it is asked again";
    PauseBefore(tries, options_.gives_up);
  }
}

const std::string& CompletionEndpoint::model() {
  if (!model_.empty()) return model_;
  const Json listed = TryParseJson(Ask("/models", ""));
  const bool fits = listed.is_object() && listed.contains("data") && listed.at("data").is_array() &&
                    !listed.at("data").empty() && listed.at("data")[0].is_object() &&
                    listed.at("data")[0].contains("id") && listed.at("data")[0].at("id").is_string();
  if (!fits) Fail("lists no model at /models; set rl.sampler.model, or correct the address, which ends with /v1");
  return model_ = listed.at("data")[0].at("id").get<std::string>();
}

Json CompletionEndpoint::RequestFor(const std::vector<int64_t>& prompt, int64_t seed, const std::string& model) const {
  const RlConfig& rl = config_.rl();
  Json request = {{"model", model},
                  {"prompt", prompt},
                  {"n", rl.group()},
                  {"max_tokens", rl.max_new_tokens()},
                  {"temperature", rl.temperature()},
                  {"top_p", rl.top_p()},
                  {"seed", seed},
                  {"logprobs", 0},
                  {"stop_token_ids", std::vector<int64_t>(options_.ends.begin(), options_.ends.end())},
                  {"return_token_ids", true}};
  if (rl.top_k() > 0) request["top_k"] = rl.top_k();
  return request;
}

Rollout CompletionEndpoint::CompletionIn(const Json& choice, const std::vector<int64_t>& prompt) const {
  Rollout rollout{.prompt_ids = prompt};
  const bool has = choice.is_object() && choice.contains("token_ids") && choice.at("token_ids").is_array();
  if (!has) {
    Fail(
        "answers without token_ids, and text alone does not say which tokens were sampled; wanted a server that "
        "honours "
        "return_token_ids, as vLLM and trireme serve do");
  }
  for (const Json& id : choice.at("token_ids")) {
    const int64_t token = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (token < 0 || token >= options_.vocabulary) {
      Fail(Concat("sampled the token ", JsonLine(id), "; the trained model's vocabulary has ", options_.vocabulary,
                  " tokens. Does it serve another model?"));
    }
    rollout.completion_ids.push_back(token);
  }
  const auto tokens = std::ssize(rollout.completion_ids);
  if (tokens == 0 || tokens > config_.rl().max_new_tokens()) {
    Fail(Concat("sampled ", tokens, " tokens; wanted 1 to rl.max_new_tokens = ", config_.rl().max_new_tokens()));
  }
  rollout.truncated = !options_.ends.contains(rollout.completion_ids.back());
  if (!HasComparableLogProbs(config_)) return rollout;
  const Json& log_probs = choice.value("logprobs", Json());
  const Json values = log_probs.is_object() ? log_probs.value("token_logprobs", Json()) : Json();
  if (!values.is_array() || std::ssize(values) != tokens) {
    Fail(Concat("gave ", values.is_array() ? values.size() : 0, " log-probabilities for ", tokens,
                " tokens; wanted logprobs.token_logprobs with one each"));
  }
  for (const Json& value : values) {
    const float number = value.is_number() ? value.get<float>() : std::numeric_limits<float>::quiet_NaN();
    rollout.log_probs.push_back(std::min(number, 0.0F));
  }
  return rollout;
}

std::vector<Rollout> CompletionEndpoint::CompletionsIn(const std::string& answer, const std::vector<int64_t>& prompt,
                                                       int64_t count) const {
  const Json parsed = TryParseJson(answer);
  const Json choices = parsed.is_object() ? parsed.value("choices", Json()) : Json();
  if (!choices.is_array()) Fail("answered '" + answer.substr(0, 80) + "'; wanted an object with choices");
  if (std::ssize(choices) != count) Fail(Concat("gave ", choices.size(), " completions; wanted n = ", count));
  std::vector<Rollout> rollouts;
  for (const Json& choice : choices) {
    if (choice.is_object() && choice.contains("prompt_token_ids") && choice.at("prompt_token_ids").is_array() &&
        choice.at("prompt_token_ids") != Json(prompt)) {
      Fail("changed the prompt: its prompt_token_ids are not those that it was sent");
    }
    rollouts.push_back(CompletionIn(choice, prompt));
  }
  return rollouts;
}

void CompletionEndpoint::Check(const std::vector<int64_t>& prompt) {
  try {
    Json request = RequestFor(prompt, 0, model());
    request["n"] = 1;
    request["max_tokens"] = 1;
    CompletionsIn(Ask("/completions", JsonLine(request)), prompt, 1);
  } catch (const Error& error) {
    throw InputError(error.what(), ". Nothing was started; rl.sampler.endpoint has to answer before");
  }
}

std::vector<Rollout> CompletionEndpoint::Sample(const std::vector<int64_t>& prompt, int64_t seed,
                                                const std::string& model) {
  const std::string body = JsonLine(RequestFor(prompt, seed, model));
  return CompletionsIn(Ask("/completions", body), prompt, config_.rl().group());
}

void CompletionEndpoint::LoadAdapter(const std::string& name, const std::string& directory) {
  Ask("/load_lora_adapter", JsonLine({{"lora_name", name}, {"lora_path", directory}, {"load_inplace", true}}));
}

void CompletionEndpoint::DropAdapter(const std::string& name) {
  const HttpResult result = AskOnce("/unload_lora_adapter", JsonLine({{"lora_name", name}}));
  if (result.status / 100 != 2) Fail(Concat("did not drop the adapter ", name, ": status ", result.reason));
}

}  // namespace trireme
