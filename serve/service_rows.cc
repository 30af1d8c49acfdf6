// The steps of a Service on every rank: rows start and end as they were told, adapters change, and new tokens go to the
// listeners. Which requests start is decided in service.cc.
#include <algorithm>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "serve/service_events.h"

namespace trireme {

// Rows that start before adapters change: those that they name are there.
void Service::Apply(Events& events) {
  for (const int64_t row : events.ends) engine_.End(row);
  Start(events);
  ApplyChanges(events);
  NoteEngine();
}

// A failure to load is the same on every rank.
void Service::ApplyChanges(Events& events) {
  for (size_t i = 0; i < events.changes.size(); ++i) {
    const std::string name = events.changes[i]["name"], directory = events.changes[i]["directory"];
    std::optional<ApiError> failure;
    std::optional<int64_t> before;
    try {
      before =
          directory.empty() ? adapters_.Remove(name) : adapters_.Set(name, directory, engine_.AddAdapter(directory));
    } catch (const Error& error) {
      TRIREME_LOG(WARNING) << "an adapter was not loaded: " << error.what();
      failure = ApiError{.message = "the adapter cannot be loaded; the server's log says why",
                         .param = "lora_path",
                         .code = "invalid_value"};
    }
    if (before) engine_.DropAdapter(*before);
    if (job_.rank() == 0) events.changers[i].done(failure ? &*failure : nullptr);
  }
}

void Service::Start(Events& events) {
  size_t begin = 0;  // in the pixels
  for (size_t i = 0; i < events.adds.size(); ++i) {
    Active* active = job_.rank() == 0 ? events.actives[i].get() : nullptr;
    if (active != nullptr) {
      active->started = ClockSeconds();
      metrics_.Observe(Histogram::kQueueTime, active->started - active->generation.arrived);
      active->generation.listener->Start();
    }
    const size_t bytes = events.adds[i]["images"];
    const std::vector<PromptPixels> pixels = active != nullptr
                                                 ? active->generation.request.images
                                                 : UnpackPixels(std::string_view(events.pixels).substr(begin, bytes));
    begin += bytes;
    try {
      StartRows(events.adds[i], pixels, active);
    } catch (const Error& error) {  // the same on every rank: what the engine cannot take is refused, and others go on
      if (active != nullptr) active->generation.listener->Fail({.message = error.what(), .code = "invalid_value"});
      continue;
    }
    if (active != nullptr) active_.push_back(std::move(events.actives[i]));
  }
}

// The choices of each prompt reuse what the first one computes of it. active: on rank 0 only. None starts if one
// cannot.
void Service::StartRows(const Json& add, const std::vector<PromptPixels>& pixels, Active* active) {
  const PromptImages images = pixels.empty() ? PromptImages() : ImagesOf(pixels, model_.images);
  std::vector<std::pair<int64_t, int64_t>> rows;  // with the tokens of their prompts
  try {
    for (const Json& prompt : add["prompts"]) AddRows(add, prompt, images, rows);
  } catch (const Error&) {
    for (const auto& [row, tokens] : rows) engine_.End(row);
    throw;
  }
  if (active == nullptr) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    AddChoice(*active, rows[i].first, rows[i].second);
    if (i % add["n"].get<size_t>() == 0) active->usage.prompt_tokens += rows[i].second;
  }
}

void Service::AddRows(const Json& add, const std::vector<int64_t>& prompt, const PromptImages& images,
                      std::vector<std::pair<int64_t, int64_t>>& rows) {
  std::optional<int64_t> first;
  for (int64_t choice = 0; choice < add["n"].get<int64_t>(); ++choice) {
    const int64_t row = engine_.Add({.prompt = prompt,
                                     .sampling = SamplingOfJson(add["sampling"]),
                                     .stream = choice,
                                     .top = add["top"].is_null() ? std::nullopt : std::optional<int64_t>(add["top"]),
                                     .prompt_log_probs = choice == 0 && add["prompt_log_probs"].get<bool>(),
                                     .salt = add["salt"],
                                     .after = first,
                                     .adapter = add["adapter"],
                                     .json = add["json"],
                                     .images = images});
    if (!first) first = row;
    rows.emplace_back(row, std::ssize(prompt));
  }
}

void Service::AddChoice(Active& active, int64_t row, int64_t prompt_tokens) {
  const CompletionRequest& request = active.generation.request;
  const int64_t most = std::min(request.max_tokens, model_.context - prompt_tokens);
  choice_of_[row] = {&active, active.choices.size()};
  active.choices.push_back({.completion = Completion(request.rules, most, &model_.tokenizer), .row = row});
  ++active.left;
}

void Service::NoteEngine() {
  const SchedulerCounts counts = engine_.counts();
  metrics_.Set(Gauge::kRunning, static_cast<double>(counts.running));
  metrics_.Set(Gauge::kWaiting, static_cast<double>(counts.waiting));
  metrics_.Set(Gauge::kCacheUsage, engine_.cache_usage());
  metrics_.SetTotal(Counter::kPreemptions, static_cast<double>(counts.preemptions));
  metrics_.SetTotal(Counter::kPrefixQueries, static_cast<double>(counts.prefix_queries));
  metrics_.SetTotal(Counter::kPrefixHits, static_cast<double>(counts.prefix_hits));
}

void Service::Deliver(const std::vector<NewToken>& tokens) {
  if (job_.rank() != 0) return;
  const double now = ClockSeconds();
  for (const NewToken& fresh : tokens) {
    auto& [active, index] = choice_of_.at(fresh.row);
    Choice& choice = active->choices[index];
    Listener& listener = *active->generation.listener;
    if (choice.completion.ids().empty())
      active->usage.cached_tokens += index % active->generation.request.n == 0 ? engine_.cached(fresh.row) : 0;
    ++active->usage.completion_tokens;
    CountToken(*active, choice, now);
    choice.completion.Take(fresh.token);
    if (fresh.complete) choice.completion.Stop();
    listener.Token(index, fresh, choice.completion.NewText());
    if (!choice.completion.ended()) continue;
    listener.End(index, choice.completion.reason());
    metrics_.AddSuccess(choice.completion.reason());
    ending_.push_back(fresh.row);
    if (--active->left == 0) {
      CountEnd(*active, now);
      listener.Done(active->usage);
    }
  }
  for (const int64_t row : ending_) choice_of_.erase(row);
  std::erase_if(active_, [](const auto& active) { return active->left == 0; });
}

void Service::CountToken(Active& active, Choice& choice, double now) {
  metrics_.Add(Counter::kGenerationTokens, 1);
  if (active.first_token == 0) {
    active.first_token = now;
    metrics_.Observe(Histogram::kTimeToFirstToken, now - active.generation.arrived);
    metrics_.Observe(Histogram::kPrefillTime, now - active.started);
  }
  if (choice.last_token > 0) metrics_.Observe(Histogram::kInterTokenLatency, now - choice.last_token);
  choice.last_token = now;
}

void Service::CountEnd(const Active& active, double now) {
  metrics_.Add(Counter::kPromptTokens, static_cast<double>(active.usage.prompt_tokens));
  metrics_.Observe(Histogram::kEndToEnd, now - active.generation.arrived);
  metrics_.Observe(Histogram::kDecodeTime, now - active.first_token);
  const auto later = static_cast<double>(active.usage.completion_tokens - std::ssize(active.choices));
  if (later > 0) {  // of its answers side by side
    metrics_.Observe(Histogram::kTimePerOutputToken,
                     (now - active.first_token) * static_cast<double>(active.choices.size()) / later);
  }
}

}  // namespace trireme
