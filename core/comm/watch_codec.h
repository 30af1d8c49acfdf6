// The frames of the hang watch, and a rank's state as the text that travels in one.
#pragma once

#include <optional>
#include <string>

#include "core/comm/ledger.h"
#include "net/handshake.h"

namespace trireme {

// Kinds of frames.
constexpr char kWatchHello = 'H';    // to rank 0: which rank this is
constexpr char kWatchWelcome = 'W';  // from rank 0: acknowledged
constexpr char kWatchStuck = 'S';    // to rank 0: something here waits longer than the limit
constexpr char kWatchHeard = 'N';    // from rank 0: the acknowledgement
constexpr char kWatchAsk = 'Q';      // from rank 0: send your state, as of now
constexpr char kWatchState = 'A';    // to rank 0: the state
constexpr char kWatchBye = 'B';      // to rank 0: leaving normally

// What both sides prove to each other before any frame; `secret` as in WatchServer::Address.
inline net::Key WatchKey(const std::string& secret) { return {secret, "hang watch"}; }

std::string EncodeState(const RankState& state);
// Nothing if the text is not a state.
std::optional<RankState> DecodeState(const std::string& text);

}  // namespace trireme
