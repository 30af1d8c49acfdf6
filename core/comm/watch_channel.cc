// Two threads per rank: one only polls for completions, since that may block in a driver; the other
// communicates.
#include "core/comm/watch_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/comm/hang_report.h"
#include "core/comm/watch_codec.h"

namespace trireme {
namespace {

constexpr double kJoinWithin_s = 30;
constexpr double kWelcomeWithin_s = 2;
constexpr double kUnanswered = 5;  // times the answer time: rank 0 or its host may be busy

}  // namespace

WatchChannel::WatchChannel(int rank, int world, const Ledger& ledger, WatchOptions options)
    : rank_(rank), world_(world), ledger_(ledger), options_(std::move(options)) {
  if (pipe2(wake_pipe_, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw RuntimeError("the hang watch cannot create a pipe: ", std::strerror(errno));
  }
}

WatchChannel::~WatchChannel() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  close(std::exchange(wake_pipe_[1], -1));  // the reading end then polls as hung up
  if (poller_.joinable()) poller_.join();
  if (talker_.joinable()) talker_.join();
  close(wake_pipe_[0]);
}

std::string WatchChannel::Listen() {
  TRIREME_CHECK(rank_ == 0 && !server_) << "rank " << rank_ << " listens for the hang watch";
  server_ = std::make_unique<WatchServer>(world_, ledger_, options_);
  std::string address = server_->Address();
  StartPolling();
  talker_ = std::thread([this] { ServeLoop(); });
  return address;
}

void WatchChannel::Connect(const std::string& address) {
  TRIREME_CHECK(rank_ != 0 && !talker_.joinable()) << "rank " << rank_ << " connects to the hang watch";
  StartPolling();
  talker_ = std::thread([this, address] { ClientLoop(address); });
}

void WatchChannel::StartPolling() {
  if (options_.poll) poller_ = std::thread([this] { PollLoop(); });
}

void WatchChannel::PollLoop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    try {
      options_.poll();
    } catch (const Error& error) {
      // The issuing thread sees the same failure at its next call and ends the job.
      TRIREME_LOG(WARNING) << "the hang watch of rank " << rank_ << " stops looking for completions: " << error.what();
      return;
    }
    lock.lock();
    stopped_.wait_for(lock, std::chrono::duration<double>(options_.look_every_s), [this] { return stop_.load(); });
  }
}

void WatchChannel::ServeLoop() {
  while (!stop_) {
    server_->Serve(wake_pipe_[0], options_.look_every_s);
    server_->LookAtOwnLedger();
  }
}

void WatchChannel::ClientLoop(const std::string& address) {
  if (!Join(address)) {
    if (!stop_) {
      TRIREME_LOG(WARNING) << "the hang watch of rank " << rank_ << " cannot reach rank 0 at "
                           << address.substr(address.find('@') + 1) << "; reports will lack this rank";
    }
  }
  heard_ = Clock::now();
  speak_after_s_ = kUnanswered * options_.answer_within_s;
  while (!stop_) {
    socket_.open() ? AnswerFor(options_.look_every_s) : Sleep(options_.look_every_s);
    LookAtOwnLedger();
  }
  if (socket_.open()) socket_.Send(kWatchBye);
}

void WatchChannel::LookAtOwnLedger() {
  const RankState state = ledger_.Snapshot(rank_);
  if (!WaitsLongerThan(state, options_.limit_s)) {
    heard_ = Clock::now();
    return;
  }
  if (socket_.open()) socket_.Send(kWatchStuck);
  const double silent_s = SecondsSince(heard_);
  if (silent_s < speak_after_s_) return;
  speak_after_s_ = 2 * silent_s;
  const std::string text = OwnHangReport(state, options_.limit_s);
  if (options_.print) {
    options_.print(text);
  } else {
    std::fputs(text.c_str(), stderr);
  }
}

void WatchChannel::Sleep(double seconds) {
  pollfd wake = {wake_pipe_[0], POLLIN, 0};
  poll(&wake, 1, static_cast<int>(seconds * 1000) + 1);
}

bool WatchChannel::Join(const std::string& address) {
  const size_t at = address.find('@');
  if (at == std::string::npos) return false;
  const Clock::time_point start = Clock::now();
  while (!stop_ && SecondsSince(start) < kJoinWithin_s) {
    if (TryJoin(address.substr(0, at), address.substr(at + 1))) return true;
    Sleep(0.5);
  }
  return false;
}

bool WatchChannel::TryJoin(const std::string& secret, const std::string& address) {
  auto socket = ConnectTo(address);
  if (!socket) return false;
  const Clock::time_point start = Clock::now();
  const auto deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kWelcomeWithin_s));
  if (net::ProveAsClient(socket->descriptor(), WatchKey(secret), deadline) != net::Handshake::State::kProven)
    return false;
  socket_ = std::move(*socket);
  socket_.Send(kWatchHello, Concat(rank_));
  while (!stop_ && socket_.open() && SecondsSince(start) < kWelcomeWithin_s) {
    WaitForTraffic(kWelcomeWithin_s);
    const auto frame = socket_.Next();
    if (frame && frame->kind == kWatchWelcome) return true;
  }
  socket_.Close();
  return false;
}

void WatchChannel::AnswerFor(double seconds) {
  const Clock::time_point start = Clock::now();
  for (double left = seconds; left > 0 && !stop_ && socket_.open(); left = seconds - SecondsSince(start)) {
    WaitForTraffic(left);
    while (const auto frame = socket_.Next()) {
      heard_ = Clock::now();
      speak_after_s_ = kUnanswered * options_.answer_within_s;
      if (frame->kind == kWatchAsk) socket_.Send(kWatchState, EncodeState(ledger_.Snapshot(rank_)));
    }
  }
}

void WatchChannel::WaitForTraffic(double seconds) {
  pollfd waits[2] = {{wake_pipe_[0], POLLIN, 0}, {socket_.descriptor(), POLLIN, 0}};
  poll(waits, 2, static_cast<int>(seconds * 1000) + 1);
  socket_.Receive();
}

}  // namespace trireme
