#include "serve/tinker/sampling.h"

#include <algorithm>
#include <climits>

#include "core/base/error.h"
#include "serve/fields.h"
#include "serve/tinker/json_data.h"

namespace trireme::tinker {
namespace {

void ReadStops(const Json* stop, SampleOrder& order) {
  if (stop == nullptr) return;
  order.model_stops = false;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  for (const Json& one : list) {
    if (one.is_string() && !one.get<std::string>().empty()) {
      order.stop_texts.push_back(one);
    } else if (one.is_number_integer()) {
      order.stop_tokens.push_back(one);
    } else {
      Refuse("sampling_params.stop: wanted texts that are not empty, or ids of tokens");
    }
  }
  if (!order.stop_texts.empty()) order.model_stops = true;  // texts stop besides the model's own end
}

void ReadParameters(const Json& json, SampleOrder& order) {
  Fields fields(json, "sampling_params");
  order.max_tokens = fields.Integer("max_tokens", 1, INT_MAX);
  order.temperature = fields.Number("temperature", 0, 100).value_or(1);
  order.top_p = fields.Number("top_p", 0, 1).value_or(1);
  order.top_k = std::max<int64_t>(fields.Integer("top_k", -1, INT_MAX).value_or(-1), 0);
  if (const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX)) order.seed = static_cast<uint64_t>(*seed);
  ReadStops(fields.Find("stop"), order);
  fields.Accept({"type"});
  fields.Finish();
}

}  // namespace

SampleOrder ReadSample(const Json& body, const DataLimits& limits) {
  Fields fields(body, "");
  SampleOrder order;
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) Refuse("prompt: is missing");
  order.prompt = ReadTokens(*prompt, "prompt");
  CheckTokens(order.prompt, limits, "prompt");
  order.count = fields.Integer("num_samples", 1, 4096).value_or(1);
  order.prompt_logprobs = fields.Switch("prompt_logprobs").value_or(false);
  if (const Json* parameters = fields.Find("sampling_params")) ReadParameters(*parameters, order);
  order.prompt_logprobs_last = fields.Integer("prompt_logprobs_last_n", 1, INT_MAX);
  if (order.prompt_logprobs_last && !order.prompt_logprobs)
    fields.Fail("prompt_logprobs_last_n", "is for prompt_logprobs");
  order.top = fields.Integer("topk_sample_logprobs", 0, kMostLikely).value_or(0);
  for (const char* name : {"topk_prompt_logprobs", "prompt_alt_tokens_k"}) {
    if (fields.Integer(name, 0, INT_MAX).value_or(0) > 0)
      Refuse(std::string(name) + ": is not supported; leave it out");
  }
  for (const char* name : {"target_prompt_logprobs", "record_stability_info"}) {
    fields.Refuse(name, "is not supported; leave it out");
  }
  fields.Accept({"sampling_session_id", "seq_id", "model_path", "base_model", "type"});
  fields.Finish();
  if (std::ssize(order.prompt) >= limits.context) {
    Refuse(Concat("prompt: ", order.prompt.size(), " tokens leave no room for an answer in a context of ",
                  limits.context));
  }
  return order;
}

std::vector<std::optional<float>> PromptLogprobs(const SampleOrder& order, const SampleResult& result) {
  std::vector<std::optional<float>> all(order.prompt.size());
  const int64_t first = std::ssize(all) - order.prompt_logprobs_last.value_or(std::ssize(all));
  for (int64_t i = std::max<int64_t>(first, 1); i < std::ssize(all); ++i) {
    all[static_cast<size_t>(i)] = result.prompt_logprobs.at(static_cast<size_t>(i - 1));
  }
  return all;
}

FutureResult SampleAnswer(const SampleOrder& order, const SampleResult& result) {
  if (!result.error.empty()) return Failure(result.error, result.users_fault);
  Json sequences = Json::array();
  for (const Sampled& one : result.sequences) {
    sequences.push_back(
        {{"stop_reason", one.stopped ? "stop" : "length"}, {"tokens", one.tokens}, {"logprobs", one.logprobs}});
  }
  Json body = {{"type", "sample"}, {"sequences", sequences}, {"prompt_logprobs", nullptr}};
  if (order.prompt_logprobs) {
    Json of_prompt = Json::array();
    for (const auto& value : PromptLogprobs(order, result)) of_prompt.push_back(value ? Json(*value) : Json());
    body["prompt_logprobs"] = std::move(of_prompt);
  }
  return Success(body);
}

}  // namespace trireme::tinker
