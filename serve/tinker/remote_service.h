// RemoteService: the service of remote training as its parts: sessions, training models, samplers, checkpoints and the
// order of work over one RemoteState. Here is only what concerns all of them. Requests come from the HTTP thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/tinker/checkpoint_requests.h"
#include "serve/tinker/remote_state.h"
#include "serve/tinker/samplers.h"
#include "serve/tinker/sessions.h"
#include "serve/tinker/training_models.h"
#include "serve/tinker/work_order.h"

namespace trireme::tinker {

class RemoteService {
 public:
  // `checkpoints` outlives it. clock: seconds, for tests.
  RemoteService(RemoteFacts facts, const Checkpoints& checkpoints, std::function<double()> clock)
      : state_(std::move(facts), checkpoints, std::move(clock)) {}

  // Samples are generated there; nullptr: there are none. wake: called when there is work.
  void Connect(SampleGenerator* generator, std::function<void()> wake);
  Json Capabilities() const;
  // Of any future.
  void Retrieve(const std::string& owner, const Json& body, bool takes_proto, std::shared_ptr<HttpReply> reply);
  Json SessionInfo(const std::string& owner, const std::string& id) const;
  // For people who look at the server: sessions and models of an owner, nothing: of all; sums over all.
  Json Status(const std::optional<std::string>& owner) const;

  // Every second or so: polls that waited long, dead sessions, gaps.
  void Tick();
  // No more work: polls are told to try again, requests are refused.
  void Close();

 private:
  std::vector<std::string> ModelsOf(const Held& held, const std::string& session) const;
  Json SessionsJson(const Held& held, const std::optional<std::string>& owner) const;
  Json ModelsJson(const Held& held, const std::optional<std::string>& owner) const;

  RemoteState state_;

 public:
  Sessions sessions{state_};
  Samplers samplers{state_, sessions};
  TrainingModels models{state_, sessions, samplers};
  CheckpointRequests checkpoints{state_};
  WorkOrder work{state_, models};
};

}  // namespace trireme::tinker
