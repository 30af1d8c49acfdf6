#include "core/comm/watch_server.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/base/error.h"
#include "core/comm/hang_report.h"
#include "core/comm/watch_codec.h"
#include "net/secret.h"

namespace trireme {
namespace {

std::chrono::steady_clock::duration Duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

WatchServer::WatchServer(int world, const Ledger& own_ledger, const WatchOptions& options)
    : world_(world),
      own_ledger_(own_ledger),
      options_(options),
      secret_(net::Hex(net::NewSecret())),
      listener_(options.listen_address),
      door_(listener_.descriptor(), WatchKey(secret_)),
      standing_(world, RankState::Answer::kNeverCame) {}

void WatchServer::Serve(int wake, double wait_s) {
  std::vector<pollfd> waits = {{wake, POLLIN, 0}, {door_.descriptor(), POLLIN, 0}};
  for (const Client& client : clients_) waits.push_back({client.socket.descriptor(), POLLIN, 0});
  poll(waits.data(), waits.size(), static_cast<int>(wait_s * 1000));
  AddQuietTime();
  for (net::Fd& socket : door_.Admit()) clients_.push_back({WatchSocket(socket.Release())});
  for (Client& client : clients_) ReadFrom(client);
  clients_.remove_if([](const Client& client) { return !client.socket.open(); });
  FinishRoundIfDue();
}

void WatchServer::LookAtOwnLedger() {
  if (WaitsLongerThan(own_ledger_.Snapshot(0), options_.limit_s)) SomeoneIsStuck();
}

void WatchServer::ReadFrom(Client& client) {
  client.socket.Receive();
  while (auto frame = client.socket.Next()) Handle(client, *frame);
  if (client.socket.open() || client.rank < 0) return;
  if (standing_[client.rank] == RankState::Answer::kSilent) standing_[client.rank] = RankState::Answer::kGone;
  if (round_) round_->awaited[client.rank] = false;
}

void WatchServer::Handle(Client& client, const WatchFrame& frame) {
  if (client.rank < 0) return Greet(client, frame.kind == kWatchHello ? frame.payload : "");
  if (frame.kind == kWatchStuck) {
    client.socket.Send(kWatchHeard);
    SomeoneIsStuck();
  }
  if (frame.kind == kWatchBye) standing_[client.rank] = RankState::Answer::kLeft;
  if (frame.kind != kWatchState || !round_ || !round_->awaited[client.rank]) return;
  if (auto state = DecodeState(frame.payload)) {
    state->rank = client.rank;
    state->answer = RankState::Answer::kGiven;
    round_->states[client.rank] = std::move(*state);
  }
  round_->awaited[client.rank] = false;
}

void WatchServer::Greet(Client& client, const std::string& hello) {
  const int rank = std::atoi(hello.c_str());
  if (rank < 1 || rank >= world_) return client.socket.Close();
  client.rank = rank;
  standing_[rank] = RankState::Answer::kSilent;
  client.socket.Send(kWatchWelcome);
}

// Time in which this thread was held up, by a printer or by the host, is none in which it looked and found no rank
// stuck.
void WatchServer::AddQuietTime() {
  const Clock::time_point now = Clock::now();
  quiet_ += std::min(now - last_look_, Duration(options_.look_every_s));
  last_look_ = now;
}

void WatchServer::SomeoneIsStuck() {
  const Clock::time_point now = Clock::now();
  // After a period in which no rank was stuck, the next hang is a new one even if it looks the same.
  if (quiet_ > Duration(3 * options_.look_every_s)) {
    last_cause_.clear();
    next_round_ = now;
  }
  quiet_ = {};
  if (!round_ && now >= next_round_) StartRound();
}

void WatchServer::StartRound() {
  round_.emplace();
  round_->states.resize(world_);
  round_->awaited.assign(world_, false);
  round_->deadline = Clock::now() + Duration(options_.answer_within_s);
  for (Client& client : clients_) {
    if (client.rank > 0) round_->awaited[client.rank] = client.socket.Send(kWatchAsk);
  }
}

void WatchServer::FinishRoundIfDue() {
  if (!round_) return;
  const bool all = std::none_of(round_->awaited.begin(), round_->awaited.end(), [](bool awaited) { return awaited; });
  if (all || Clock::now() >= round_->deadline) Report();
}

void WatchServer::Report() {
  std::vector<RankState> states = {own_ledger_.Snapshot(0)};
  for (int rank = 1; rank < world_; ++rank) {
    states.push_back(round_->states[rank].value_or(RankState{.rank = rank, .answer = standing_[rank]}));
  }
  round_.reset();
  const HangReport report = MakeHangReport(states, options_.limit_s);
  next_round_ = Clock::now() + Duration(options_.look_every_s);
  if (report.text.empty()) return;
  pause_s_ = report.cause == last_cause_ ? 2 * pause_s_ : options_.limit_s;
  last_cause_ = report.cause;
  if (options_.print) {
    options_.print(report.text);
  } else {
    std::fputs(report.text.c_str(), stderr);
  }
  next_round_ = Clock::now() + Duration(pause_s_);  // from here, however long printing took
}

}  // namespace trireme
