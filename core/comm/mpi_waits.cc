#include "core/comm/mpi_waits.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/comm/hang_report.h"

namespace trireme {

double MpiWaits::DefaultLimit_s() {
  constexpr double kPreset_s = 60;
  const char* text = std::getenv("TRIREME_HANG_REPORT_SECONDS");
  if (text == nullptr || *text == '\0') return kPreset_s;
  int seconds = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, seconds);
  if (error != std::errc() || stopped != end || seconds < 0) {
    throw InputError("TRIREME_HANG_REPORT_SECONDS is '", text, "'; write a whole number of seconds, 0: never");
  }
  return seconds;
}

MpiWaits::MpiWaits(std::string who, double limit_s, std::function<void(const std::string&)> print)
    : who_(std::move(who)), limit_s_(limit_s), print_(std::move(print)), thread_([this] { Look(); }) {}

MpiWaits::~MpiWaits() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MpiWaits::set_who(const std::string& who) {
  const std::lock_guard lock(mutex_);
  who_ = who;
}

void MpiWaits::set_limit(double limit_s) {
  const std::lock_guard lock(mutex_);
  limit_s_ = limit_s;
}

MpiWaits::Call::Call(MpiWaits* waits, const char* operation, bool everyone) : waits_(waits), everyone_(everyone) {
  if (waits_ != nullptr) waits_->Begin(operation, everyone_);
}

MpiWaits::Call::~Call() {
  if (waits_ != nullptr) waits_->End(everyone_);
}

void MpiWaits::Attach(Ledger* ledger, int world) {
  std::vector<int> members;
  for (int rank = 0; rank < world; ++rank) members.push_back(rank);
  const std::lock_guard lock(mutex_);
  listeners_.push_back({ledger, ledger->AddGroup(kMpiGroup, members)});
}

void MpiWaits::Detach(const Ledger* ledger) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [&](const Listener& each) { return each.ledger == ledger; });
}

void MpiWaits::Begin(const char* operation, bool everyone) {
  {
    const std::lock_guard lock(mutex_);
    if (everyone && !listeners_.empty()) {
      for (Listener& each : listeners_) {
        each.ledger->Issued(each.group, ++each.sequence, operation);
        each.ledger->Reached(each.group, each.sequence);
      }
      return;
    }
    operation_ = operation;
    since_ = Clock::now();
    say_after_s_ = limit_s_;
  }
  changed_.notify_all();
}

void MpiWaits::End(bool everyone) {
  const std::lock_guard lock(mutex_);
  operation_ = nullptr;
  if (!everyone) return;
  for (const Listener& each : listeners_) {
    if (each.sequence > 0) each.ledger->Done(each.group, each.sequence);
  }
}

void MpiWaits::Look() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    // Sleeps while nothing waits, which is most of a job's time.
    if (operation_ == nullptr || limit_s_ <= 0) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::duration<double>(std::min(1.0, limit_s_ / 2)));
    }
    SayIfDue();
  }
}

void MpiWaits::SayIfDue() {
  if (stop_ || operation_ == nullptr || limit_s_ <= 0) return;
  const double waited_s = SecondsSince(since_);
  if (waited_s < say_after_s_) return;
  say_after_s_ = 2 * waited_s;
  const std::string text =
      Concat(who_, " has waited ", static_cast<int>(waited_s), " s in ", operation_,
             ": another rank has not reached it. Is a rank stopped, still busy, or disconnected?\n");
  if (print_) {
    print_(text);
  } else {
    std::fputs(text.c_str(), stderr);
  }
}

}  // namespace trireme
