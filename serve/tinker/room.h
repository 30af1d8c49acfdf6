// Room: what the service of remote training knows: sessions, models with their queues, samplers, futures. Requests come
// from the HTTP thread; work is taken one unit at a time by whoever runs the model, which may take as long as it likes.
// No HTTP paths here, no torch.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "serve/tinker/checkpoints.h"
#include "serve/tinker/company.h"
#include "serve/tinker/fair_turns.h"
#include "serve/tinker/futures.h"
#include "serve/tinker/loss_request.h"
#include "serve/tinker/model_queue.h"
#include "serve/tinker/quotas.h"
#include "serve/tinker/sampling.h"
#include "serve/tinker/throughput.h"
#include "serve/tinker/weight_versions.h"

namespace trireme {
class Fields;
}

namespace trireme::tinker {

struct RoomFacts {
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

class Room {
 public:
  // `checkpoints` outlives it. clock: seconds, for tests.
  Room(RoomFacts facts, const Checkpoints& checkpoints, std::function<double()> clock);

  // Samples go there; nullptr: there are none. wake: called when there is work.
  void Connect(SampleDoor* door, std::function<void()> wake);

  // Requests: each returns the answer's body, or throws ApiError. `owner`: of Checkpoints::OwnerOf.
  Json CreateSession(const std::string& owner, const Json& body);
  Json Heartbeat(const std::string& owner, const Json& body);
  Json FinishSession(const std::string& owner, const std::string& session);
  Json CreateModel(const std::string& owner, const Json& body);
  Json UnloadModel(const std::string& owner, const Json& body);
  Json GetInfo(const std::string& owner, const Json& body);
  // name: of the field with the data, "forward_input" or "forward_backward_input".
  Json Pass(const std::string& owner, const Json& body, const std::string& name);
  // The same in protobuf.
  Json PassProto(const std::string& owner, const std::string& bytes);
  Json Step(const std::string& owner, const Json& body);
  Json Save(const std::string& owner, const Json& body);
  Json Load(const std::string& owner, const Json& body);
  Json SaveForSampler(const std::string& owner, const Json& body);
  Json SaveExternal(const std::string& owner, const Json& body);
  Json CreateSampler(const std::string& owner, const Json& body);
  Json Sample(const std::string& owner, const Json& body);
  Json Cancel(const std::string& owner, const Json& body);
  void Retrieve(const std::string& owner, const Json& body, bool takes_proto, std::shared_ptr<HttpReply> reply);
  // All of a sampler that are done: one poll instead of one for each sample.
  void RetrieveMany(const std::string& owner, const Json& body, std::shared_ptr<HttpReply> reply);

  // Lists (room_lists.cc).
  Json Capabilities() const;
  Json WeightsInfo(const std::string& owner, const Json& body) const;
  Json SamplerInfo(const std::string& owner, const std::string& id) const;
  Json TrainingRuns(const std::string& owner, int64_t limit, int64_t offset) const;
  Json TrainingRun(const std::string& owner, const std::string& run) const;
  Json CheckpointList(const std::string& owner, const std::string& run, int64_t limit, int64_t offset) const;
  Json RemoveCheckpoint(const std::string& owner, const std::string& run, const std::string& id);
  // ttl: seconds from now; nothing: for ever.
  Json KeepCheckpoint(const std::string& owner, const std::string& run, const std::string& id,
                      std::optional<int64_t> ttl);
  Json Sessions(const std::string& owner, int64_t limit, int64_t offset) const;
  Json SessionInfo(const std::string& owner, const std::string& id) const;
  // For people who look at the server: sessions and models of an owner, nothing: of all; sums over all.
  Json Status(const std::optional<std::string>& owner) const;

  // Of whoever runs the model, one after another: the next unit, taking turns between models; then what came of it.
  // idle: no tokens are being generated; otherwise a unit that changes the weights they are generated with has to wait.
  std::optional<Task> Take(bool idle = true);
  // The same with passes of other models that wait and may join it (room_joined.cc); empty: there is nothing to do.
  std::vector<Task> TakeJoined(bool idle = true);
  // Whether the next unit is one that waits until no tokens are being generated.
  bool NeedsIdle() const;
  // Seconds for which TakeJoined holds passes that are ready, since others are about to come; 0: it does not.
  double Patience() const;
  void Finish(const Task& task, const TrainOutcome& outcome);
  bool HasWork() const;
  // Every second or so: polls that waited long, dead sessions, gaps.
  void Tick();
  // No more work: polls are told to try again, requests are refused.
  void Close();

 private:
  struct Session {
    std::string owner;
    double heard = 0;
    bool finished = false;
    std::string created = {}, display_name = {};
    std::map<int64_t, std::string> model_answers = {}, sampler_ids = {};  // by their seq ids
    Json user_metadata = nullptr;
  };
  struct Model {
    std::string owner, session;
    TrainedPairs pairs = {};
    ModelQueue queue = {};
    Json user_metadata = nullptr;
    std::string last_request = {};  // ISO 8601
    bool dropped = false;           // its pairs are gone, or about to be
    Throughput tokens = {};         // trained
    int64_t steps = 0;
  };
  struct Sampler {
    std::string owner, session, path, directory;  // path: "" of the base and of unnamed copies
    bool base = false, unnamed = false;
    enum class State { kClosed, kOpening, kOpen, kFailed } state = State::kClosed;
    int64_t adapter = -1;
    int64_t version = 0;  // of the weights, where a model is trained in full
    std::string failure = {};
    int64_t used = 0;                                                           // when, by Room::uses_
    std::map<int64_t, std::string> known = {};                                  // request_ids by seq_id
    std::map<std::string, std::shared_ptr<std::atomic<bool>>> unfinished = {};  // SampleOrder::cancelled by request_id
    std::vector<std::function<void()>> waiting = {};                            // until it is open
  };
  struct ReadySample {
    std::string sampler, future;
    SampleOrder order = {};
    SampleResult so_far = {};
  };

  Session& SessionOf(const std::string& owner, const std::string& id);
  Model& ModelOf(const std::string& owner, const std::string& id);
  // Adds a request of a model, or finds the one that it repeats; the answer's body. make: reads and checks the request;
  // what it throws becomes the future's failure, in its turn.
  Json Queue(const std::string& owner, const Json& body, const std::function<void(Model&, Task&)>& make);
  Json Enqueue(const std::string& owner, const std::string& model, int64_t seq,
               const std::function<void(Model&, Task&)>& make);
  void MakePass(Task& task, const RawLoss& raw, bool backward) const;
  Json SaveNamed(const std::string& owner, const Json& body, const std::string& kind);
  std::string NewSampler(const std::string& owner, const std::string& session, std::optional<int64_t> seq,
                         Sampler sampler);
  void OpenSampler(const std::string& id);
  void StartSample(const std::string& id, const std::string& future, SampleOrder order);
  void FinishOpening(const std::string& id, const std::string& directory, const TrainOutcome& outcome);
  // Its adapter leaves the device; the next sample opens it again.
  void CloseSampler(const std::string& id);
  void CloseSurplus();
  // It fails what is unfinished, and is about to go.
  void DropSampler(const std::string& id, const std::string& why);
  void Generate(ReadySample sample);
  // false: the door is full.
  bool Submit(const ReadySample& sample);
  void EndSample(const std::string& sampler, const std::string& future, FutureResult result);
  bool Ended(const std::string& session) const;
  void DropModel(const std::string& id, const std::string& why);
  void EndSession(const std::string& id, const std::string& why);
  void FailAll(std::vector<Task> tasks, const std::string& why);
  Json RunOf(const std::string& owner, const std::string& run, const std::vector<CheckpointRecord>& records) const;
  // Of a checkpoint that is about to be saved: what the request says of it, too (ttl_seconds, user_metadata).
  Json FactsOf(const Model& model, Fields& fields) const;
  void RefuseIfClosed() const;
  void RefuseSecondModel(const std::string& owner) const;
  // Where a model is trained in full (room_full.cc).
  TrainedPairs ReadFull(const Json* lora) const;
  bool ChangesWeights(const TrainWork& work) const;
  void NoteWeights(const TrainWork& work, const TrainOutcome& outcome);
  void CheckKind(const CheckpointRecord& record) const;
  void UseWeightsOf(Sampler& sampler, const std::string& path) const;
  // Throws 429, from which clients back off, if the owner has as much unfinished as it may.
  void RefuseIfFull(const std::string& owner) const;
  std::vector<Turn> Ready() const;
  std::string PauseOf(const std::string& owner) const;
  // Of those that are ready, steps that go before others' passes (room_joined.cc); if there is none, all.
  bool LooseComesFirst() const;
  std::vector<Turn> StepsOrAll(std::vector<Turn> ready) const;
  // The request of one of these, whose turn it is; its owner is charged.
  Task TakeTurn(const std::vector<Turn>& ready);

  const RoomFacts facts_;
  const Checkpoints& checkpoints_;
  const std::function<double()> clock_;
  SampleDoor* door_ = nullptr;
  std::function<void()> wake_ = [] {};

  mutable std::recursive_mutex mutex_;
  Futures futures_;
  Quotas quotas_;
  FairTurns turns_;
  Company company_;
  double pass_began_ = 0;  // the last one
  Throughput trained_, sampled_;
  std::map<std::string, Session> sessions_;
  std::map<std::string, Model> models_;
  std::map<std::string, Sampler> samplers_;
  std::set<std::string> open_samplers_;  // with an adapter on the device, or about to have one
  int64_t uses_ = 0;                     // of samplers, so far
  std::deque<ReadySample> deferred_;     // the door was full; Tick tries again
  std::deque<Task> loose_;               // of no model's order
  bool scored_ = false;                  // the last pass was one of these
  WeightVersions versions_;
  std::set<std::string> stepped_;  // models whose steps went first since the last pass
  bool closed_ = false;
};

// Why a sampler no longer samples.
inline constexpr char kMovedOn[] =
    "the model's weights have changed since this sampler was made, and where a model is trained in full (--train-full) "
    "there is one "
    "set of them; make a new sampler (save_weights_and_get_sampling_client), or load_state its checkpoint first";

// Under which futures of a sampler's clone are waited for together.
std::string TopicOf(const std::string& sampler, int64_t clone);

// "2026-01-31T12:00:00Z"; by default now.
std::string IsoTime(int64_t seconds = UnixSeconds());

}  // namespace trireme::tinker
