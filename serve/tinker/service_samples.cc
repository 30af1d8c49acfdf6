#include "serve/tinker/service_samples.h"

#include <cstring>
#include <utility>

#include "net/secret.h"

namespace trireme::tinker {
namespace {

// Collects all sequences of an order.
class SampleListener : public Listener {
 public:
  SampleListener(const SampleOrder& order, std::function<void(SampleResult)> done)
      : cancelled_(order.cancelled), done_(std::move(done)) {
    result_.sequences.resize(static_cast<size_t>(order.count));
  }

  bool gone() const override { return *cancelled_; }
  void Start() override {}
  void Token(size_t choice, const NewToken& token, const std::string& /*text*/) override {
    Sampled& one = result_.sequences.at(choice);
    one.tokens.push_back(token.token);
    one.logprobs.push_back(token.log_probs.empty() ? 0.0F : token.log_probs.front().log_prob);
    std::vector<LikelyToken>& likely = one.likely.emplace_back();
    for (size_t i = 1; i < token.log_probs.size(); ++i) {
      likely.push_back({.token = token.log_probs[i].token, .logprob = token.log_probs[i].log_prob});
    }
  }
  void End(size_t choice, const std::string& reason) override {
    result_.sequences.at(choice).stopped = reason == "stop";
  }
  void Done(const Usage& /*usage*/) override { done_(std::move(result_)); }
  void Fail(const ApiError& error) override {
    result_.error = error.message;
    result_.users_fault = error.status < 500 && error.status != 429;
    done_(std::move(result_));
  }

 private:
  const std::shared_ptr<std::atomic<bool>> cancelled_;
  std::function<void(SampleResult)> done_;
  SampleResult result_;
};

uint64_t RandomSeed() {
  uint64_t seed = 0;
  std::memcpy(&seed, net::RandomBytes(sizeof(seed)).data(), sizeof(seed));
  return seed >> 1;
}

}  // namespace

void ServiceSamples::Submit(SampleOrder order, std::function<void(SampleResult)> done) {
  CompletionRequest request{.model = model_.name,
                            .adapter = order.adapter,
                            .prompts = {order.prompt},
                            .n = order.count,
                            .max_tokens = order.max_tokens.value_or(model_.context),
                            .sampling = {.temperature = order.temperature,
                                         .top_k = order.top_k,
                                         .top_p = order.top_p,
                                         .seed = order.seed.value_or(RandomSeed())},
                            .top = order.top};
  if (order.model_stops) request.rules.ends = model_.ends;
  for (const int64_t token : order.stop_tokens) request.rules.ends.insert(token);
  request.rules.stops = order.stop_texts;
  request.rules.keep_special = true;
  service_.Submit({.request = std::move(request),
                   .salt = order.salt,
                   .listener = std::make_unique<SampleListener>(order, std::move(done))});
}

}  // namespace trireme::tinker
