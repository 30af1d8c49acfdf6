#include "core/comm/watch_codec.h"

#include <nlohmann/json.hpp>

namespace trireme {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MessageState, peer, sends, number)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CallState, sequence, operation, bytes, collective, issued_s, reached_s, messages)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GroupState, name, members, issued, done, collectives_issued, collectives_reached,
                                   oldest, latest, sent, received)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankState, rank, groups)

std::string EncodeState(const RankState& state) { return nlohmann::json(state).dump(); }

std::optional<RankState> DecodeState(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<RankState>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace trireme
