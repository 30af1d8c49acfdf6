// TrainingModels: the models that clients train, and the requests of each in the client's order: a request becomes a
// unit of work in its model's queue and a future. Which unit is next is WorkOrder's. All it has is guarded by
// RemoteState's lock.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/tinker/expected_requests.h"
#include "serve/tinker/model_queue.h"
#include "serve/tinker/remote_state.h"
#include "serve/tinker/samplers.h"
#include "serve/tinker/sessions.h"
#include "serve/tinker/throughput.h"

namespace trireme {
class Fields;
}

namespace trireme::tinker {

struct TrainingModel {
  std::string owner = {}, session = {};
  TrainedAdapters adapters = {};
  ModelQueue queue = {};
  Json user_metadata = nullptr;
  std::string last_request = {};  // ISO 8601
  Throughput tokens = {};         // trained
  int64_t steps = 0;
};

class TrainingModels {
 public:
  // All outlive it.
  TrainingModels(RemoteState& state, Sessions& sessions, Samplers& samplers);

  // Requests: each returns the answer's body, or throws ApiError.
  Json Create(const std::string& owner, const Json& body);
  Json Unload(const std::string& owner, const Json& body);
  Json Info(const std::string& owner, const Json& body);
  // Training runs: models, and those whose checkpoints are there.
  Json Runs(const std::string& owner, int64_t limit, int64_t offset) const;
  Json Run(const std::string& owner, const std::string& run) const;

  // Requests that wait their turn (training_requests.cc). name: of the field with the data, "forward_input" or
  // "forward_backward_input".
  Json Pass(const std::string& owner, const Json& body, const std::string& name);
  // The same in protobuf.
  Json PassProto(const std::string& owner, const std::string& bytes);
  Json Step(const std::string& owner, const Json& body);
  Json Save(const std::string& owner, const Json& body);
  Json SaveExternal(const std::string& owner, const Json& body);
  Json SaveForSampler(const std::string& owner, const Json& body);
  Json Load(const std::string& owner, const Json& body);

  const std::map<std::string, TrainingModel>& all(const Held& /*held*/) const { return models_; }
  const Task& next(const Held& /*held*/, const std::string& id) const { return models_.at(id).queue.next(); }
  Task Take(const Held& /*held*/, const std::string& id) { return models_.at(id).queue.Take(); }
  const ExpectedRequests& expected(const Held& /*held*/) const { return expected_; }
  // A unit was run, if it is a pass in so many seconds.
  void NoteDone(const Held& held, const TrainWork& work, const TrainOutcome& outcome, double seconds);
  double tokens_per_second(const Held& held) const;
  // Gives up requests that wait for one which never came.
  void Tick(const Held& held);

 private:
  // Reads and checks a request; what it throws becomes the future's failure, in its turn.
  using Make = std::function<void(const TrainingModel& model, Task& task)>;

  TrainingModel& Find(const std::string& owner, const std::string& id);
  // Adds a request of a model, or finds the one that it repeats; the answer's body.
  Json Queue(const std::string& owner, const Json& body, const Make& make);
  Json Enqueue(const std::string& owner, const std::string& model, int64_t seq, const Make& make);
  Task MakeTask(const std::string& owner, const TrainingModel& model, const std::string& id, int64_t seq,
                const Make& make);
  void MakePass(Task& task, const RawLoss& raw, bool backward) const;
  Json SaveNamed(const std::string& owner, const Json& body, const std::string& kind);
  // Of a checkpoint that is about to be saved: what the request says of it, too (ttl_seconds, user_metadata).
  Json FactsOf(const TrainingModel& model, Fields& fields) const;
  void RefuseAnother(const std::string& owner) const;
  Json RunOf(const std::string& owner, const std::string& run, const std::vector<CheckpointRecord>& records) const;
  void Drop(const Held& held, const std::string& id, const std::string& why);
  void EndSession(const Held& held, const std::string& session, const std::string& why);

  RemoteState& state_;
  Sessions& sessions_;
  Samplers& samplers_;
  std::map<std::string, TrainingModel> models_;
  std::map<std::string, std::map<int64_t, std::string>> created_;  // futures, by session and model_seq_id
  ExpectedRequests expected_;
  Throughput tokens_;  // trained
};

}  // namespace trireme::tinker
