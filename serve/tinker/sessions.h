// Sessions: the clients of remote training, each of which says from time to time that it is still there. What a session
// has made ends with it; whoever keeps that is told. All it has is guarded by RemoteState's lock.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/tinker/remote_state.h"

namespace trireme::tinker {

struct Session {
  std::string owner;
  double heard = 0;
  bool finished = false;
  std::string created = {}, display_name = {};
  Json user_metadata = nullptr;
};

class Sessions {
 public:
  // `state` outlives it.
  explicit Sessions(RemoteState& state) : state_(state) {}
  // Called when a session ends. Who asked last is called first: it may use what others keep.
  using Ended = std::function<void(const Held& held, const std::string& session, const std::string& why)>;
  void WhenEnded(Ended ended) { ended_.push_back(std::move(ended)); }

  // Requests: each returns the answer's body, or throws ApiError. `owner`: of Checkpoints::OwnerOf.
  Json Create(const std::string& owner, const Json& body);
  Json Heartbeat(const std::string& owner, const Json& body);
  Json Finish(const std::string& owner, const std::string& id);
  Json List(const std::string& owner, int64_t limit, int64_t offset) const;

  // A request of this session came: it is alive. Throws 404 if it is not the owner's, 410 if it has ended.
  void Hear(const Held& held, const std::string& owner, const std::string& id);
  bool ended(const Held& held, const std::string& id) const;  // such are remembered for a while
  const std::map<std::string, Session>& all(const Held& /*held*/) const { return sessions_; }
  // Ends those that have been silent for long.
  void Tick(const Held& held);

 private:
  void End(const Held& held, const std::string& id, const std::string& why);

  RemoteState& state_;
  std::vector<Ended> ended_;
  std::map<std::string, Session> sessions_;
};

}  // namespace trireme::tinker
