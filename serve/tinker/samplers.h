// Samplers: the base model or a saved adapter, and the samples that are drawn from them. An adapter is loaded when the
// first sample needs it, and leaves when others were used later. Where a model is trained in full a sampler is of the
// weights that there were: once they have changed it is refused, since there is no second set of them to sample with.
// All it has is guarded by RemoteState's lock.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/tinker/remote_state.h"
#include "serve/tinker/sessions.h"
#include "serve/tinker/throughput.h"

namespace trireme::tinker {

// Why a sampler no longer samples.
inline constexpr char kMovedOn[] =
    "the model's weights have changed since this sampler was made, and where a model is trained in full (--train-full) "
    "there is one "
    "set of them; make a new sampler (save_weights_and_get_sampling_client), or load_state its checkpoint first";

class Samplers {
 public:
  // Both outlive it.
  Samplers(RemoteState& state, Sessions& sessions);

  // Requests: each returns the answer's body, or throws ApiError.
  Json Create(const std::string& owner, const Json& body);
  Json Info(const std::string& owner, const std::string& id) const;
  Json Sample(const std::string& owner, const Json& body);
  Json Cancel(const std::string& owner, const Json& body);
  // All samples of a sampler that are done: one poll instead of one for each sample.
  void Retrieve(const std::string& owner, const Json& body, std::shared_ptr<HttpReply> reply);

  // Of a model's weights as they are, which nobody else has: in this directory, from now on the sampler's; empty where
  // a model is trained in full. Its id.
  std::string AddUnnamed(const Held& held, const std::string& owner, const std::string& session, int64_t seq,
                         const std::string& directory);
  std::vector<std::string> OfSession(const Held& held, const std::string& session) const;
  double tokens_per_second(const Held& held) const;
  // Tries samples again that could not be generated yet.
  void Tick(const Held& held);

 private:
  struct Sampler {
    std::string owner = {}, session = {};
    std::string path = {}, directory = {};  // path: "" of the base and of unnamed copies
    bool base = false, unnamed = false;
    enum class State { kClosed, kOpening, kOpen, kFailed } state = State::kClosed;
    int64_t adapter = -1;
    int64_t version = 0;  // of the weights, where a model is trained in full
    std::string failure = {};
    int64_t used = 0;                                                           // when, by Samplers::uses_
    std::map<int64_t, std::string> known = {};                                  // request_ids by seq_id
    std::map<std::string, std::shared_ptr<std::atomic<bool>>> unfinished = {};  // SampleOrder::cancelled by request_id
    std::vector<std::function<void(const Held&)>> waiting = {};                 // until it is open
  };
  struct ReadySample {
    std::string sampler, future;
    SampleOrder order = {};
    SampleResult so_far = {};
  };

  Sampler& Find(const std::string& owner, const std::string& id);
  std::string Add(const Held& held, const std::string& owner, const std::string& session, int64_t seq, Sampler sampler);
  // path: of a checkpoint; empty: the weights that the server started with.
  void UseWeightsOf(Sampler& sampler, const std::string& path) const;
  void EndSession(const Held& held, const std::string& session, const std::string& why);
  void Open(const Held& held, const std::string& id);
  void FinishOpening(const Held& held, const std::string& id, const std::string& directory,
                     const TrainOutcome& outcome);
  // Its adapter leaves the device; the next sample opens it again.
  void Close(const Held& held, const std::string& id);
  void CloseSurplus(const Held& held);
  // It fails what is unfinished, and is about to go.
  void Drop(const Held& held, const std::string& id, const std::string& why);

  // Samples (samples.cc).
  void RefuseNow(const Held& held, const std::string& owner, const SampleOrder& order) const;
  void Start(const Held& held, const std::string& id, const std::string& future, SampleOrder order);
  void ScorePrompt(const Held& held, const Sampler& sampler, ReadySample sample);
  void Generate(const Held& held, ReadySample sample);
  // false: the generator is full.
  bool Submit(const Held& held, const ReadySample& sample);
  void Finish(const Held& held, const ReadySample& sample, SampleResult result);
  void End(const Held& held, const std::string& sampler, const std::string& future, FutureResult result);

  RemoteState& state_;
  Sessions& sessions_;
  std::map<std::string, Sampler> samplers_;
  std::map<std::string, std::map<int64_t, std::string>> ids_;  // of samplers, by session and seq_id
  std::set<std::string> open_;                                 // with an adapter on the device, or about to have one
  int64_t uses_ = 0;                                           // of samplers, so far
  std::deque<ReadySample> deferred_;                           // the generator was full; Tick tries again
  Throughput tokens_;                                          // sampled
};

}  // namespace trireme::tinker
