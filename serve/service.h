// Service: requests from many threads to one engine. Rank 0 takes requests from a queue; before each step one
// small broadcast tells all ranks which rows come and which end, then all of them take the step. Tokens
// become text here, and go to each request's listener. Knows no protocol.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/comm/job.h"
#include "generation/engine.h"
#include "serve/adapter_names.h"
#include "serve/generation_service.h"

namespace trireme {

// Work of another kind that shares the ranks with the engine: rank 0 says what comes next, all ranks do it between two
// steps.
class SideWork {
 public:
  virtual ~SideWork() = default;
  // On rank 0: whether there is any, and the next unit as bytes; empty: none. Never called with the service's lock
  // held.
  virtual bool waiting() = 0;
  // idle: no row is there, nor a request that came before the unit; a unit that must not meet any is not given
  // otherwise.
  virtual std::string Take(bool idle) = 0;
  // Whether the next unit is such a one: requests that come from now on wait for it.
  virtual bool needs_idle() { return false; }
  // Likewise: seconds after which Take may give some that it held back; 0: it holds none.
  virtual double patience() { return 0; }
  // On every rank, with what rank 0 took.
  virtual void Run(const std::string& unit) = 0;
};

struct ServiceLimits {
  int64_t waiting = 256;                           // requests that have not started
  int64_t waiting_image_bytes = int64_t{1} << 30;  // of the images of those
  double drain_seconds = 30;                       // for running ones after the signal to stop
};

class Service : public GenerationService {
 public:
  // Collective. All references outlive it.
  Service(Session& session, const EngineOptions& options, const ServiceLimits& limits, const ServedModel& model,
          AdapterNames& adapters, Job& job);
  ~Service() override;

  // Collective, before Run.
  void AddAdapter(const std::string& name, const std::string& directory);
  // On rank 0.
  void Change(AdapterChange change) override;
  void Submit(Generation generation) override;
  // Before Run; the work outlives the service. Wake: from any thread, when there is some.
  void Share(SideWork* work) { side_work_ = work; }
  void Wake();
  // On any rank; returns when a signal asked for it (StopRequested) and running requests have ended.
  void Run();

  Metrics& metrics() override { return metrics_; }
  Engine& engine() { return engine_; }

 private:
  struct Choice;
  struct Active;
  struct Events;

  void RefuseIfClosed() const;
  void RefuseManyImages(const CompletionRequest& request) const;
  Events Collect();
  Events Exchange(Events mine);
  void Apply(Events& events);
  void Start(Events& events);
  void StartRows(const Json& add, const std::vector<PromptPixels>& pixels, Active* active);
  void AddRows(const Json& add, const std::vector<int64_t>& prompt, const PromptImages& images,
               std::vector<std::pair<int64_t, int64_t>>& rows);
  void AddChoice(Active& active, int64_t row, int64_t prompt_tokens);
  void ApplyChanges(Events& events);
  void CollectChanges(Events& events);
  void CollectAdds(Events& events);
  std::string TakeSideWork(bool draining);
  bool HasEarlierRequests();
  void Deliver(const std::vector<NewToken>& tokens);
  void CountToken(Active& active, Choice& choice, double now);
  void CountEnd(const Active& active, double now);
  void Drop(Active& active);
  void FailAll(const ApiError& error);
  bool Draining();
  void NoteEngine();

  Engine engine_;
  const ServiceLimits limits_;
  const ServedModel& model_;
  AdapterNames& adapters_;
  Job& job_;
  Metrics metrics_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Generation> queue_;  // from other threads
  std::deque<AdapterChange> changes_;
  bool closed_ = false;  // no more requests
  std::atomic<bool> woken_ = false;
  SideWork* side_work_ = nullptr;
  const bool in_pipeline_;  // steps are in flight between two calls: other work waits until there is none

  // Of the service's thread on rank 0.
  std::vector<std::unique_ptr<Active>> active_;
  std::map<int64_t, std::pair<Active*, size_t>> choice_of_;  // by the engine's row
  std::vector<int64_t> ending_;                              // rows to end before the next step
  std::optional<double> stop_at_;
  std::optional<double> hold_from_;  // requests that arrived later wait for other work
};

}  // namespace trireme
