// The queue of a Service, and on rank 0 what comes before the next step. What all ranks do with it is in
// service_rows.cc.
#include "serve/service.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"
#include "serve/service_events.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kIdle(20);  // ranks look for work this often; none spins meanwhile
constexpr int64_t kMostAdds = 8;   // requests that start before one step

int64_t ImageBytes(const std::vector<PromptPixels>& images) {
  int64_t bytes = 0;
  for (const PromptPixels& image : images) bytes += image.bytes();
  return bytes;
}

}  // namespace

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
  generation.arrived = ClockSeconds();
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
    stop_at_ = ClockSeconds() + limits_.drain_seconds;
  }
  return true;
}

Service::Events Service::Collect() {
  Events events;
  const bool draining = Draining();
  if (draining && ClockSeconds() > *stop_at_) {
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
    hold_from_ = ClockSeconds();
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
                           {"top", MostLikely(request) ? Json(*MostLikely(request)) : Json(nullptr)},
                           {"prompt_log_probs", request.prompt_log_probs || request.prompt_top},
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
