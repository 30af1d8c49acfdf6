// CheckpointRequests: what clients may look at and do with their saved checkpoints, under RemoteState's lock: a save
// may be about to take a name. Each owner sees its own.
#pragma once

#include <optional>
#include <string>

#include "core/base/json.h"
#include "serve/tinker/remote_state.h"

namespace trireme::tinker {

Json CheckpointJson(const CheckpointRecord& record);

class CheckpointRequests {
 public:
  // `state` outlives it.
  explicit CheckpointRequests(const RemoteState& state) : state_(state) {}

  Json WeightsInfo(const std::string& owner, const Json& body) const;
  // run: empty: of all.
  Json List(const std::string& owner, const std::string& run, int64_t limit, int64_t offset) const;
  Json Remove(const std::string& owner, const CheckpointPath& path) const;
  // ttl: seconds from now; nothing: for ever.
  Json Keep(const std::string& owner, const CheckpointPath& path, std::optional<int64_t> ttl) const;

 private:
  const RemoteState& state_;
};

}  // namespace trireme::tinker
