// Samples as the protocol asks for them and gets them. Who generates them is behind SampleGenerator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/tinker/futures.h"
#include "serve/tinker/loss_request.h"

namespace trireme::tinker {

struct SampleOrder {
  std::vector<int64_t> prompt = {};
  int64_t count = 1;
  std::optional<int64_t> max_tokens = {};  // nothing: to the end of the context
  double temperature = 1, top_p = 1;
  int64_t top_k = 0;  // 0: all
  std::optional<uint64_t> seed = {};
  bool model_stops = true;  // the model's end tokens end an answer
  std::vector<int64_t> stop_tokens = {};
  std::vector<std::string> stop_texts = {};
  int64_t adapter = -1;  // the engine's id; -1: the base
  int64_t version = 0;   // of the weights, where a model is trained in full
  std::string salt = {};
  bool prompt_logprobs = false;
  std::optional<int64_t> prompt_logprobs_last = {};  // only of so many tokens at the end
  int64_t top = 0;                                   // most likely tokens to report for each drawn one
  // Of all copies of it; set when nobody waits for the answer any more.
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
};

struct LikelyToken {
  int64_t token = 0;
  float logprob = 0;
};

struct Sampled {
  std::vector<int64_t> tokens = {};  // with the one that stopped it
  std::vector<float> logprobs = {};
  std::vector<std::vector<LikelyToken>> likely = {};  // by token, if asked for; the most likely first
  bool stopped = false;                               // false: it is as long as it may be
};

struct SampleResult {
  std::vector<Sampled> sequences = {};
  std::vector<float> prompt_logprobs = {};  // from the prompt's second token on
  std::string error = {};                   // empty: it worked
  bool users_fault = false;
};

// Generates. Submit returns at once or throws an ApiError, of status 429 if there is no room now; `done` is called
// once, later and from another thread, never within Submit; or not at all if the order was cancelled.
class SampleGenerator {
 public:
  virtual ~SampleGenerator() = default;
  virtual void Submit(SampleOrder order, std::function<void(SampleResult)> done) = 0;
  virtual int64_t most_rows() const = 0;  // sequences of an order
};

// Throws ApiError for what is wrong or not built.
constexpr int64_t kMostLikely = 20;
// Of every token of the prompt, nothing where there is none or it was not asked for.
std::vector<std::optional<float>> PromptLogprobs(const SampleOrder& order, const SampleResult& result);
SampleOrder ReadSample(const Json& body, const DataLimits& limits);
FutureResult SampleAnswer(const SampleOrder& order, const SampleResult& result);

}  // namespace trireme::tinker
