#include "serve/text_service.h"

#include <chrono>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/stop_signals.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kPause(20);  // ranks look for work this often; none spins meanwhile
constexpr int64_t kStop = -1;                    // in place of a number of texts

}  // namespace

struct TextService::Active {
  TextWork work;
  std::vector<float> numbers = {};  // of the texts so far
  size_t next = 0;                  // the first text that no pass has had
  size_t done = 0;
};

TextService::TextService(TextModel model, const TextLimits& limits, Job& job)
    : model_(std::move(model)), limits_(limits), job_(job) {}
TextService::~TextService() = default;

void TextService::Submit(TextWork work) {
  const std::lock_guard lock(mutex_);
  if (closed_ || StopRequested()) {
    throw ApiError{
        .status = 503, .message = "the server is about to stop", .code = "overloaded", .type = "server_error"};
  }
  if (std::ssize(queue_) >= limits_.waiting) {
    throw ApiError{.status = 429,
                   .message = Concat(queue_.size(), " requests are waiting; try again later"),
                   .code = "rate_limit_exceeded",
                   .type = "rate_limit_error"};
  }
  work.arrived = ClockSeconds();
  queue_.push_back(std::move(work));
  arrived_.notify_one();
}

void TextService::Run() {
  while (true) {
    const std::vector<Part> parts = job_.rank() == 0 ? Collect() : std::vector<Part>();
    const std::vector<TextTokens> texts = Exchange(parts, stop_);
    if (stop_) return;
    if (texts.empty()) {
      if (job_.rank() != 0) std::this_thread::sleep_for(kPause);
      continue;
    }
    const std::vector<float> numbers = model_(texts);
    if (job_.rank() == 0) Deliver(parts, numbers);
  }
}

bool TextService::Draining() {
  if (!StopRequested()) return false;
  if (!stop_at_) {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    stop_at_ = ClockSeconds() + limits_.drain_seconds;
  }
  return true;
}

std::vector<TextService::Part> TextService::Collect() {
  const bool draining = Draining();
  if (draining && ClockSeconds() > *stop_at_) {
    FailAll({.status = 503, .message = "the server stopped", .code = "overloaded", .type = "server_error"});
  }
  TakeWaiting(limits_.tokens);
  std::erase_if(active_, [this](const auto& active) {
    if (!active->work.listener->gone()) return false;
    metrics_.AddSuccess("abort");
    return true;
  });
  stop_ = draining && active_.empty();
  std::vector<Part> parts;
  int64_t tokens = 0;
  for (const auto& active : active_) {
    for (; active->next < active->work.texts.size(); ++active->next) {
      tokens += std::ssize(active->work.texts[active->next]);
      if (tokens > limits_.tokens && !parts.empty()) break;
      parts.push_back({active.get(), active->next});
    }
    if (tokens > limits_.tokens) break;
  }
  metrics_.Set(Gauge::kRunning, static_cast<double>(parts.size()));
  return parts;
}

// From the queue, until there are as many tokens as a pass may have. Waits a moment where there is nothing at all.
void TextService::TakeWaiting(int64_t tokens) {
  for (const auto& active : active_) {
    for (size_t i = active->next; i < active->work.texts.size(); ++i) tokens -= std::ssize(active->work.texts[i]);
  }
  std::unique_lock lock(mutex_);
  if (active_.empty() && queue_.empty() && !closed_)
    arrived_.wait_for(lock, kPause, [this] { return !queue_.empty(); });
  while (!queue_.empty() && tokens > 0) {
    auto active = std::make_unique<Active>(Active{.work = std::move(queue_.front())});
    queue_.pop_front();
    for (const TextTokens& text : active->work.texts) tokens -= std::ssize(text);
    metrics_.Observe(Histogram::kQueueTime, ClockSeconds() - active->work.arrived);
    active_.push_back(std::move(active));
  }
  metrics_.Set(Gauge::kQueued, static_cast<double>(queue_.size()));
}

// One broadcast of the number of texts, their lengths and their tokens; a process that runs alone tells nobody.
std::vector<TextTokens> TextService::Exchange(const std::vector<Part>& parts, bool stop) {
  std::vector<TextTokens> texts;
  for (const Part& part : parts) texts.push_back(part.active->work.texts[part.text]);
  if (job_.world() == 1) return texts;
  int64_t count = stop ? kStop : std::ssize(texts);
  job_.BroadcastBytes(&count, sizeof(count));
  stop_ = count == kStop;
  if (count <= 0) return {};
  std::vector<int64_t> lengths(static_cast<size_t>(count)), tokens;
  for (size_t i = 0; i < texts.size(); ++i) {
    lengths[i] = std::ssize(texts[i]);
    tokens.insert(tokens.end(), texts[i].begin(), texts[i].end());
  }
  job_.BroadcastBytes(lengths.data(), lengths.size() * sizeof(int64_t));
  int64_t total = 0;
  for (const int64_t length : lengths) total += length;
  tokens.resize(static_cast<size_t>(total));
  job_.BroadcastBytes(tokens.data(), tokens.size() * sizeof(int64_t));
  if (job_.rank() == 0) return texts;
  auto begin = tokens.begin();
  for (const int64_t length : lengths) {
    texts.emplace_back(begin, begin + length);
    begin += length;
  }
  return texts;
}

// Texts of a request are computed in their order.
void TextService::Deliver(const std::vector<Part>& parts, const std::vector<float>& numbers) {
  const size_t each = numbers.size() / parts.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    Active& active = *parts[i].active;
    active.numbers.insert(active.numbers.end(), numbers.begin() + static_cast<int64_t>(i * each),
                          numbers.begin() + static_cast<int64_t>((i + 1) * each));
    metrics_.Add(Counter::kPromptTokens, static_cast<double>(active.work.texts[parts[i].text].size()));
    if (++active.done < active.work.texts.size()) continue;
    active.work.listener->Done(active.numbers);
    metrics_.AddSuccess("stop");
    metrics_.Observe(Histogram::kEndToEnd, ClockSeconds() - active.work.arrived);
  }
  std::erase_if(active_, [](const auto& active) { return active->done == active->work.texts.size(); });
  metrics_.Set(Gauge::kRunning, 0);
}

void TextService::FailAll(const ApiError& error) {
  std::deque<TextWork> queue;
  {
    const std::lock_guard lock(mutex_);
    queue.swap(queue_);
  }
  for (const auto& active : active_) active->work.listener->Fail(error);
  active_.clear();
  for (TextWork& waiting : queue) waiting.listener->Fail(error);
}

}  // namespace trireme
