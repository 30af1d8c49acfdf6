// Trace: what a rank did when, as spans on named lanes, for a timeline view. Records only;
// chrome_trace.h writes the file. Not a function profiler: callers name the few things worth seeing.
//
//   Span span(trace, "compute", "F3.1");                             // until the end of the scope
//   Span span(trace, "pp", [&] { return action.ToText(); });         // a name that is costly to build
//
// There is no global trace: code that records receives a Trace*; nullptr means off, at the cost of one
// branch.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

struct TraceSpan {
  std::string lane{};  // "compute", "pp", "dp-cp"
  std::string name{};  // "F3.1"
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::vector<std::pair<std::string, std::string>> args{};  // shown by a viewer with the name
  bool operator==(const TraceSpan&) const = default;
};

class Trace {
 public:
  Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Nanoseconds since 1970, so that the ranks of a host line up; advanced from the start by a monotonic clock
  // so that no span ends before it begins.
  int64_t Now() const;

  // From any thread.
  void Add(TraceSpan span);

  // Removes and returns all spans so far: by start, and among equal starts the longest first, so
  // that a span precedes those nested in it.
  std::vector<TraceSpan> Take();
  // What is added from now on is dropped.
  void Stop();

 private:
  int64_t offset_ns_;  // from the steady clock to the wall clock, at the start
  std::mutex mutex_;
  bool stopped_ = false;
  std::vector<TraceSpan> spans_;
};

// One span, from its construction to its destruction.
class Span {
 public:
  Span(Trace* trace, std::string_view lane, std::string_view name) : trace_(trace) {
    if (trace_ != nullptr) Begin(lane, std::string(name));
  }
  template <typename MakeName>
    requires(!std::is_convertible_v<const MakeName&, std::string_view>)
  Span(Trace* trace, std::string_view lane, const MakeName& make_name) : trace_(trace) {
    if (trace_ != nullptr) Begin(lane, make_name());
  }
  ~Span() {
    if (trace_ != nullptr) End();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  void Note(std::string_view key, std::string_view value) {
    if (trace_ != nullptr) span_.args.emplace_back(key, value);
  }

 private:
  void Begin(std::string_view lane, std::string name);
  void End();

  Trace* trace_;
  TraceSpan span_;
};

}  // namespace trireme
