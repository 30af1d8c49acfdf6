#include "serve/service.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kIdle(20);  // ranks look for work this often; none spins meanwhile
constexpr int64_t kMostAdds = 8;   // requests that start before one step

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Json SamplingJson(const Sampling& s) {
  Json bias = Json::array();
  for (const auto& [token, value] : s.bias) bias.push_back({token, value});
  return {{"t", s.temperature},
          {"k", s.top_k},
          {"p", s.top_p},
          {"m", s.min_p},
          {"presence", s.presence_penalty},
          {"frequency", s.frequency_penalty},
          {"repetition", s.repetition_penalty},
          {"bias", bias},
          {"least", s.min_tokens},
          {"ends", s.ends},
          {"seed", s.seed}};
}

Sampling SamplingOfJson(const Json& j) {
  Sampling s{.temperature = j["t"],
             .top_k = j["k"],
             .top_p = j["p"],
             .min_p = j["m"],
             .presence_penalty = j["presence"],
             .frequency_penalty = j["frequency"],
             .repetition_penalty = j["repetition"],
             .min_tokens = j["least"],
             .ends = j["ends"].get<std::set<int64_t>>(),
             .seed = j["seed"]};
  for (const Json& pair : j["bias"]) s.bias[pair[0].get<int64_t>()] = pair[1];
  return s;
}

int64_t ImageBytes(const std::vector<PromptPixels>& images) {
  int64_t bytes = 0;
  for (const PromptPixels& image : images) bytes += image.bytes();
  return bytes;
}

}  // namespace

struct Service::Choice {
  Answer answer;
  int64_t row = -1;
  double last_token = 0;  // when it came; 0: none yet
};

struct Service::Active {
  Generation generation;
  double started = 0, first_token = 0;
  std::vector<Choice> choices = {};  // prompt by prompt
  size_t left = 0;
  Usage usage = {};
};

// What all ranks are told before a step.
struct Service::Events {
  std::vector<int64_t> ends;
  Json adds = Json::array();     // {prompts, n, sampling, top, salt, adapter, json, images: bytes in `pixels`}
  Json changes = Json::array();  // {name, directory} of adapters; an empty directory: drop it
  bool stop = false;
  std::string work;    // a unit of other work; sent by itself, since it may be large
  std::string pixels;  // of all adds' images, sent by itself, too; left empty in a process that runs alone
  bool waits = false;  // nothing to do
  std::vector<std::unique_ptr<Active>> actives;  // of the adds, on rank 0 only
  std::vector<AdapterChange> changers;           // of the changes, on rank 0 only
  std::vector<std::unique_ptr<Active>> late;     // whose adapter is gone, on rank 0 only

  std::string Text() const {
    if (ends.empty() && adds.empty() && changes.empty() && !stop && work.empty()) return waits ? "w" : "";
    return JsonLine({{"ends", ends},
                     {"adds", adds},
                     {"changes", changes},
                     {"stop", stop},
                     {"work", work.size()},
                     {"pixels", pixels.size()}});
  }
};

Service::Service(Session& session, const EngineOptions& options, const ServiceLimits& limits, const ServedModel& model,
                 AdapterNames& adapters, Job& job)
    : engine_(session, options),
      limits_(limits),
      model_(model),
      adapters_(adapters),
      job_(job),
      in_pipeline_(engine_.stages() > 1) {}
Service::~Service() = default;

// The lock is held.
void Service::RefuseIfClosed() const {
  if (!closed_ && !StopRequested()) return;
  throw ApiError{.status = 503, .message = "the server is about to stop", .code = "overloaded", .type = "server_error"};
}

void Service::Submit(Generation generation) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  if (std::ssize(queue_) >= limits_.waiting) {
    throw ApiError{.status = 429,
                   .message = Concat(queue_.size(), " requests are waiting; try again later"),
                   .code = "rate_limit_exceeded",
                   .type = "rate_limit_error"};
  }
  RefuseManyImages(generation.request);
  generation.arrived = Now();
  queue_.push_back(std::move(generation));
  arrived_.notify_one();
}

// The lock is held. Requests are small but for their images: these must not fill the memory while they wait.
void Service::RefuseManyImages(const CompletionRequest& request) const {
  if (request.images.empty()) return;
  int64_t bytes = ImageBytes(request.images);
  for (const Generation& waiting : queue_) bytes += ImageBytes(waiting.request.images);
  if (bytes <= limits_.waiting_image_bytes) return;
  throw ApiError{.status = 429,
                 .message = Concat("the images of waiting requests take ", bytes >> 20, " MiB; try again later"),
                 .code = "rate_limit_exceeded",
                 .type = "rate_limit_error"};
}

void Service::AddAdapter(const std::string& name, const std::string& directory) {
  adapters_.Set(name, directory, engine_.AddAdapter(directory));
}

void Service::Change(AdapterChange change) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  changes_.push_back(std::move(change));
  arrived_.notify_one();
}

void Service::Run() {
  while (true) {
    Events events = Exchange(job_.rank() == 0 ? Collect() : Events());
    Apply(events);
    if (events.stop) return;
    if (!events.work.empty()) side_work_->Run(events.work);
    if (!engine_.idle())
      Deliver(engine_.Step());
    else if (events.waits && job_.rank() != 0)
      std::this_thread::sleep_for(kIdle);
  }
}

bool Service::Draining() {
  if (!StopRequested()) return false;
  if (!stop_at_) {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    stop_at_ = Now() + limits_.drain_seconds;
  }
  return true;
}

Service::Events Service::Collect() {
  Events events;
  const bool draining = Draining();
  if (draining && Now() > *stop_at_) {
    FailAll({.status = 503, .message = "the server stopped", .code = "overloaded", .type = "server_error"});
  }
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->generation.listener->gone()) Drop(*active);
  }
  std::erase_if(active_, [](const auto& active) { return active->left == 0; });
  events.ends = std::exchange(ending_, {});
  woken_ = false;
  events.work = TakeSideWork(draining);
  // In a pipeline one of both runs at a time, in turns: requests that wait join after each unit.
  const bool held = in_pipeline_ && !draining && events.work.empty() && side_work_ != nullptr && side_work_->waiting();

  std::unique_lock lock(mutex_);
  if (active_.empty() && queue_.empty() && changes_.empty() && events.ends.empty() && events.work.empty()) {
    if (draining) {
      events.stop = true;
      return events;
    }
    arrived_.wait_for(lock, kIdle, [&] { return !queue_.empty() || !changes_.empty() || woken_; });
  }
  CollectChanges(events);
  if (!held || hold_from_) CollectAdds(events);
  metrics_.Set(Gauge::kQueued, static_cast<double>(queue_.size()));
  events.waits =
      active_.empty() && events.adds.empty() && events.changes.empty() && events.ends.empty() && events.work.empty();
  lock.unlock();  // a listener may have a lock of its own
  for (const auto& late : events.late)
    late->generation.listener->Fail(ModelNotFound(late->generation.request.model, model_));
  return events;
}

// The lock is not held: whoever has the work may hold a lock of its own while it submits.
std::string Service::TakeSideWork(bool draining) {
  const bool alone = side_work_ != nullptr && !draining && side_work_->needs_idle();
  if (!alone) {
    hold_from_.reset();
  } else if (!hold_from_) {
    hold_from_ = Now();
  }
  if (side_work_ == nullptr || draining || (in_pipeline_ && !active_.empty())) return "";
  const auto take = [&] { return side_work_->Take(hold_from_ && active_.empty() && !HasEarlierRequests()); };
  std::string unit = take();
  while (unit.empty() && active_.empty()) {
    const double patience = side_work_->patience();
    std::unique_lock lock(mutex_);
    if (patience <= 0 || !queue_.empty() || !changes_.empty()) break;
    arrived_.wait_for(lock, std::chrono::duration<double>(patience),
                      [&] { return !queue_.empty() || !changes_.empty() || woken_; });
    woken_ = false;
    lock.unlock();
    unit = take();
  }
  return unit;
}

// Than the unit that waits until there are none: it gets its turn, however many come.
bool Service::HasEarlierRequests() {
  const std::lock_guard lock(mutex_);
  return !queue_.empty() && queue_.front().arrived <= *hold_from_;
}

void Service::Wake() {
  woken_ = true;
  arrived_.notify_one();
}

// The lock is held. A queue in front of the engine's own: only what it can start soon, so that those who wait can be
// counted.
void Service::CollectAdds(Events& events) {
  while (!queue_.empty() && engine_.counts().waiting == 0 && std::ssize(events.adds) < kMostAdds) {
    if (hold_from_ && queue_.front().arrived > *hold_from_) break;
    auto active = std::make_unique<Active>();
    active->generation = std::move(queue_.front());
    queue_.pop_front();
    if (active->generation.listener->gone()) continue;
    const CompletionRequest& request = active->generation.request;
    if (request.adapter >= 0 && !engine_.has_adapter(request.adapter)) {  // dropped while the request waited
      events.late.push_back(std::move(active));
      continue;
    }
    events.adds.push_back({{"prompts", request.prompts},
                           {"n", request.n},
                           {"sampling", SamplingJson(request.sampling)},
                           {"top", request.top ? Json(*request.top) : Json(nullptr)},
                           {"salt", active->generation.salt},
                           {"adapter", request.adapter},
                           {"json", request.json},
                           {"images", 0}});
    if (job_.world() > 1 && !request.images.empty()) {
      const std::string pixels = PackPixels(request.images);
      events.adds.back()["images"] = pixels.size();
      events.pixels += pixels;
    }
    events.actives.push_back(std::move(active));
  }
}

// The lock is held. One at a time, so that each sees what the one before it did.
void Service::CollectChanges(Events& events) {
  while (!changes_.empty() && events.changes.empty()) {
    AdapterChange change = std::move(changes_.front());
    changes_.pop_front();
    const bool known = adapters_.Find(change.name).has_value();
    if (change.directory.empty() && !known) {
      const ApiError unknown = ModelNotFound(change.name, model_);
      change.done(&unknown);
    } else if (!change.directory.empty() && (change.name == model_.name || (known && !change.replace))) {
      const ApiError taken{.message = "lora_name: '" + change.name + "' is served already; drop it first",
                           .param = "lora_name",
                           .code = "invalid_value"};
      change.done(&taken);
    } else {
      events.changes.push_back({{"name", change.name}, {"directory", change.directory}});
      events.changers.push_back(std::move(change));
    }
  }
}

// One small broadcast; a process that runs alone tells nobody.
Service::Events Service::Exchange(Events mine) {
  if (job_.world() == 1) return mine;
  std::string text = mine.Text();
  uint64_t size = text.size();
  job_.BroadcastBytes(&size, sizeof(size));
  text.resize(size);
  if (size > 0) job_.BroadcastBytes(text.data(), size);
  if (job_.rank() == 0) {
    if (!mine.work.empty()) job_.BroadcastBytes(mine.work.data(), mine.work.size());
    if (!mine.pixels.empty()) job_.BroadcastBytes(mine.pixels.data(), mine.pixels.size());
    return mine;
  }
  Events told;
  told.waits = text == "w";
  if (text.size() < 2) return told;
  const Json json = Json::parse(text);
  told.ends = json["ends"].get<std::vector<int64_t>>();
  told.adds = json["adds"];
  told.changes = json["changes"];
  told.stop = json["stop"];
  told.work.resize(json["work"].get<size_t>());
  if (!told.work.empty()) job_.BroadcastBytes(told.work.data(), told.work.size());
  told.pixels.resize(json["pixels"].get<size_t>());
  if (!told.pixels.empty()) job_.BroadcastBytes(told.pixels.data(), told.pixels.size());
  return told;
}

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
      active->started = Now();
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
  active.choices.push_back({.answer = Answer(request.rules, most, &model_.tokenizer), .row = row});
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
  const double now = Now();
  for (const NewToken& fresh : tokens) {
    auto& [active, index] = choice_of_.at(fresh.row);
    Choice& choice = active->choices[index];
    Listener& listener = *active->generation.listener;
    if (choice.answer.ids().empty())
      active->usage.cached_tokens += index % active->generation.request.n == 0 ? engine_.cached(fresh.row) : 0;
    ++active->usage.completion_tokens;
    CountToken(*active, choice, now);
    choice.answer.Take(fresh.token);
    if (fresh.complete) choice.answer.Stop();
    listener.Token(index, fresh, choice.answer.NewText());
    if (!choice.answer.ended()) continue;
    listener.End(index, choice.answer.reason());
    metrics_.AddSuccess(choice.answer.reason());
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

// Its rows end before the next step.
void Service::Drop(Active& active) {
  for (const Choice& choice : active.choices) {
    if (choice_of_.erase(choice.row) > 0) ending_.push_back(choice.row);
  }
  if (active.left > 0) metrics_.AddSuccess("abort");
  active.left = 0;
}

void Service::FailAll(const ApiError& error) {
  for (const std::unique_ptr<Active>& active : active_) {
    active->generation.listener->Fail(error);
    Drop(*active);
  }
  std::deque<Generation> queue;
  std::deque<AdapterChange> changes;
  {
    const std::lock_guard lock(mutex_);
    queue.swap(queue_);
    changes.swap(changes_);
  }
  // Without the lock: a listener may have one of its own.
  for (Generation& waiting : queue) waiting.listener->Fail(error);
  for (AdapterChange& change : changes) change.done(&error);
}

}  // namespace trireme
