// Spans as recorded: nested, in order, from several threads, and nothing without a trace.
#include "core/trace/trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <set>
#include <thread>

namespace trireme {
namespace {

std::vector<std::string> NamesOf(const std::vector<TraceSpan>& spans) {
  std::vector<std::string> names;
  for (const TraceSpan& span : spans) names.push_back(span.name);
  return names;
}

TEST(Trace, SpansNest) {
  Trace trace;
  {
    Span outer(&trace, "compute", "outer");
    outer.Note("tokens", "512");
    {
      Span first(&trace, "compute", "first");
    }
    {
      Span second(&trace, "pp", "second");
    }
  }
  const std::vector<TraceSpan> spans = trace.Take();
  ASSERT_EQ(NamesOf(spans), (std::vector<std::string>{"outer", "first", "second"}));
  for (const TraceSpan& span : spans) {
    EXPECT_LE(span.start_ns, span.end_ns);
    EXPECT_LE(spans[0].start_ns, span.start_ns);
    EXPECT_GE(spans[0].end_ns, span.end_ns);
  }
  EXPECT_LE(spans[1].end_ns, spans[2].start_ns);
  EXPECT_EQ(spans[2].lane, "pp");
  EXPECT_EQ(spans[0].args, (std::vector<std::pair<std::string, std::string>>{{"tokens", "512"}}));
  EXPECT_TRUE(spans[1].args.empty());
}

TEST(Trace, OrderIsByStartThenTheLongestFirst) {
  Trace trace;
  trace.Add({.name = "late", .start_ns = 50, .end_ns = 60});
  trace.Add({.name = "inside", .start_ns = 10, .end_ns = 20});
  trace.Add({.name = "around", .start_ns = 10, .end_ns = 90});
  trace.Add({.name = "early", .start_ns = 5, .end_ns = 6});
  EXPECT_EQ(NamesOf(trace.Take()), (std::vector<std::string>{"early", "around", "inside", "late"}));
}

TEST(Trace, TakeEmptiesIt) {
  Trace trace;
  {
    Span span(&trace, "a", "b");
  }
  EXPECT_EQ(trace.Take().size(), 1u);
  EXPECT_TRUE(trace.Take().empty());
}

TEST(Trace, NothingIsAddedAfterAStop) {
  Trace trace;
  {
    Span span(&trace, "a", "before");
  }
  trace.Stop();
  {
    Span span(&trace, "a", "behind");
  }
  EXPECT_EQ(NamesOf(trace.Take()), (std::vector<std::string>{"before"}));
}

TEST(Trace, WithoutATraceNothingIsRecordedOrNamed) {
  bool made = false;
  {
    Span span(nullptr, "compute", [&] {
      made = true;
      return std::string("name");
    });
    span.Note("key", "value");
  }
  EXPECT_FALSE(made);
  Trace trace;
  {
    Span span(&trace, "compute", [] { return std::string("made"); });
  }
  EXPECT_EQ(NamesOf(trace.Take()), std::vector<std::string>{"made"});
}

TEST(Trace, TimeIsWallClockTime) {
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const int64_t before = now();
  Trace trace;
  const int64_t inside = trace.Now();
  // The two clocks are read one after the other: they agree up to that interval.
  constexpr int64_t kSlack = int64_t{60} * 1000 * 1000 * 1000;
  EXPECT_GT(inside, before - kSlack);
  EXPECT_LT(inside, now() + kSlack);
  EXPECT_LE(inside, trace.Now());
}

TEST(Trace, ThreadsLoseNothing) {
  constexpr int kThreads = 4, kSpans = 20000;
  Trace trace;
  std::latch together(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&trace, &together, t] {
      together.arrive_and_wait();
      for (int i = 0; i < kSpans; ++i) {
        Span span(&trace, std::to_string(t), std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::pair<std::string, std::string>> seen;
  const std::vector<TraceSpan> spans = trace.Take();
  for (size_t i = 0; i < spans.size(); ++i) {
    seen.insert({spans[i].lane, spans[i].name});
    EXPECT_LE(spans[i > 0 ? i - 1 : 0].start_ns, spans[i].start_ns);
  }
  EXPECT_EQ(spans.size(), size_t{kThreads * kSpans});
  EXPECT_EQ(seen.size(), size_t{kThreads * kSpans});
}

}  // namespace
}  // namespace trireme
