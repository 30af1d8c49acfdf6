#include "train/rollouts/endpoint_sampler.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "generation/text/prompts.h"
#include "train/rollouts/asked_rank.h"

namespace trireme {
namespace {

// Calls `work` with 0 … count - 1 on that many threads; after an error no further ones, and the first error is thrown.
void InParallel(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> running;
  for (size_t i = 0; i < std::min(threads, count); ++i) running.emplace_back(run);
  for (std::thread& thread : running) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace

EndpointSampler::EndpointSampler(const Config& config, std::shared_ptr<const PromptSet> prompts, int64_t vocabulary,
                                 Job& job)
    : config_(config), prompts_(std::move(prompts)), job_(job) {
  if (job.rank() != 0) return;
  endpoint_ = std::make_unique<CompletionEndpoint>(
      config, EndpointOptions{.vocabulary = vocabulary,
                              .ends = EndTokens(config.model().path(), prompts_->tokenizer()),
                              .gives_up = [this] { return background_.giving_up(); }});
}

std::string EndpointSampler::Fetch(const Order& order) {
  const std::string model = order.weights.model.empty() ? endpoint_->model() : order.weights.model;
  const RandomStream seeds = RandomStream(static_cast<uint64_t>(config_.run().seed()), "requests for completions")
                                 .Branch(static_cast<uint64_t>(order.step));
  std::vector<std::vector<Rollout>> groups(order.prompts.size());
  InParallel(groups.size(), static_cast<size_t>(config_.rl().sampler().concurrency()), [&](size_t i) {
    const auto seed = static_cast<int64_t>(seeds.Below(uint64_t{1} << 31, static_cast<uint64_t>(order.first) + i));
    groups[i] = endpoint_->Sample(prompts_->at(order.prompts[i]).ids, seed, model);
  });
  Json all = Json::array();
  for (const std::vector<Rollout>& group : groups) {
    for (const Rollout& one : group) {
      all.push_back({{"ids", one.completion_ids}, {"log_probs", one.log_probs}, {"truncated", one.truncated}});
    }
  }
  return JsonLine({{"repeats", endpoint_->repeats()}, {"completions", all}});
}

std::vector<Rollout> EndpointSampler::Decode(const std::string& text, const Order& order) const {
  const Json found = ParseJson(text, "completions of rank 0");
  std::vector<Rollout> rollouts;
  for (size_t i = 0; i < found.at("completions").size(); ++i) {
    const Json& one = found.at("completions")[i];
    const PolicyPrompt& prompt = prompts_->at(order.prompts[i / static_cast<size_t>(config_.rl().group())]);
    Rollout rollout{.weights_step = order.weights.step, .prompt = prompt.text, .prompt_ids = prompt.ids};
    rollout.completion_ids = one.at("ids").get<std::vector<int64_t>>();
    for (const Json& value : one.at("log_probs")) {
      rollout.log_probs.push_back(value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>());
    }
    rollout.truncated = one.at("truncated").get<bool>();
    if (prompts_->tokenizer() != nullptr) {
      const std::vector<int32_t> ids(rollout.completion_ids.begin(), rollout.completion_ids.end());
      rollout.completion = prompts_->tokenizer()->Decode(ids, /*skip_special=*/true);
    }
    rollouts.push_back(std::move(rollout));
  }
  return rollouts;
}

void EndpointSampler::Prepare(int64_t step, const std::vector<int64_t>& prompts) {
  prepared_ = Order{.step = step, .first = 0, .prompts = prompts, .weights = weights_};
  if (job_.rank() == 0) background_.Start([this] { fetched_ = Fetch(*prepared_); });
}

std::vector<Rollout> EndpointSampler::Draw(int64_t step, const std::vector<int64_t>& prompts, int64_t first) {
  const auto start = Clock::now();
  const bool waits = prepared_ && prepared_->step == step && first == 0;
  const Order order = waits ? *prepared_ : Order{.step = step, .first = first, .prompts = prompts, .weights = weights_};
  const std::string text = AskOnRankZero(job_, [&] {
    if (!waits) return Fetch(order);
    background_.Wait();
    return std::exchange(fetched_, {});
  });
  if (waits) prepared_.reset();
  const std::vector<Rollout> rollouts = Decode(text, order);
  metrics_["sampling/repeated_requests"] = ParseJson(text, "completions of rank 0").at("repeats").get<double>();
  metrics_["sampling_seconds"] = SecondsSince(start);
  return rollouts;
}

}  // namespace trireme
