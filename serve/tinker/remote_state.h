// RemoteState: what sessions, training models and samplers of remote training share: one lock, the clock, futures,
// quotas, and work that is of no model's order. No HTTP paths here, no torch.
//
// The lock is `mutex`. It guards all that is not const here and all that Sessions, TrainingModels, Samplers and
// WorkOrder have. Requests of clients and of whoever runs the model take it once, in the public function that they
// call; functions that need it ask for `const Held&` and are called with that lock. Nobody who is called with it held
// (wake, SampleGenerator::Submit, a reply) calls back.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "serve/tinker/checkpoints.h"
#include "serve/tinker/futures.h"
#include "serve/tinker/held.h"
#include "serve/tinker/loss_request.h"
#include "serve/tinker/model_queue.h"
#include "serve/tinker/quotas.h"
#include "serve/tinker/sampling.h"
#include "serve/tinker/weight_versions.h"

namespace trireme::tinker {

struct RemoteFacts {
  std::string model_name;       // as clients name the base model
  std::string model_directory;  // where its tokenizer is
  DataLimits limits = {};
  bool full = false;  // one model is trained with all its parameters; there are no adapters
  int64_t max_rank = 32;
  int64_t max_models = 8;         // at once
  int64_t joined_tokens = 4096;   // of passes of several models that run as one
  int64_t together = 8;           // models whose passes may run as one
  int64_t max_queued = 4096;      // requests of one model that wait
  int64_t max_sessions = 4096;    // with those that have ended but are remembered
  double session_seconds = 1800;  // without a heartbeat
  double gap_seconds = 60;        // a missing seq_id while later ones wait
  QuotaLimits quota = {};         // of each owner
  FutureTimes futures = {};
};

struct RemoteState {
  // `checkpoints` outlives it. clock: seconds, for tests.
  RemoteState(RemoteFacts facts, const Checkpoints& checkpoints, std::function<double()> clock);
  RemoteState(const RemoteState&) = delete;
  RemoteState& operator=(const RemoteState&) = delete;

  // Throw 503 after Close, and 429, from which clients back off, if the owner has as much unfinished as it may.
  void RefuseIfClosed(const Held& held) const;
  void RefuseIfFull(const Held& held, const std::string& owner) const;
  // Why an owner's work waits; empty: it does not. The lock is held, as Futures has it.
  std::string PauseOf(const std::string& owner) const;
  void Finish(const Held& held, const std::string& future, FutureResult result);
  void FailAll(const Held& held, const std::vector<Task>& tasks, const std::string& why);
  // Work of no model's order.
  void AddLoose(const Held& held, Task task);

  // Where one model is trained in full, whether this changes the weights that there are.
  bool ChangesWeights(const TrainWork& work) const;
  // That a checkpoint is of what this server trains.
  void CheckKind(const CheckpointRecord& record) const;

  const RemoteFacts facts;
  const Checkpoints& checkpoints;
  const std::function<double()> clock;

  mutable std::mutex mutex;
  SampleGenerator* generator = nullptr;  // nullptr: there are no samples
  std::function<void()> wake = [] {};    // there is work
  Futures futures;
  Quotas quotas;
  WeightVersions versions;
  std::deque<Task> loose;
  bool closed = false;
};

// "2026-01-31T12:00:00Z"; by default now.
std::string IsoTime(int64_t seconds = UnixSeconds());

}  // namespace trireme::tinker
