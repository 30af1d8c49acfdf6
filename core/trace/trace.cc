#include "core/trace/trace.h"

#include <algorithm>
#include <chrono>

namespace trireme {
namespace {

template <typename Clock>
int64_t Nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

Trace::Trace() : offset_ns_(Nanoseconds<std::chrono::system_clock>() - Nanoseconds<std::chrono::steady_clock>()) {}

int64_t Trace::Now() const { return offset_ns_ + Nanoseconds<std::chrono::steady_clock>(); }

void Trace::Add(TraceSpan span) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) spans_.push_back(std::move(span));
}

void Trace::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

std::vector<TraceSpan> Trace::Take() {
  std::vector<TraceSpan> spans;
  {
    const std::lock_guard lock(mutex_);
    spans.swap(spans_);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  return spans;
}

void Span::Begin(std::string_view lane, std::string name) {
  span_.lane = lane;
  span_.name = std::move(name);
  span_.start_ns = trace_->Now();
}

void Span::End() {
  span_.end_ns = trace_->Now();
  trace_->Add(std::move(span_));
}

}  // namespace trireme
