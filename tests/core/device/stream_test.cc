// Streams and events: ordered within a stream, unordered between streams except through events, errors
// reported where they belong.
#include "core/device/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/event.h"

namespace trireme {
namespace {

static_assert(!std::is_copy_constructible_v<Stream> && std::is_nothrow_move_constructible_v<Stream>);
static_assert(!std::is_copy_constructible_v<Event> && std::is_nothrow_move_constructible_v<Event>);

// Blocks a stream's worker until it is opened.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(Stream, RunsInOrderAndConcurrentlyWithTheHost) {
  const Device device(0);
  const Stream stream;
  Gate gate;
  std::vector<int> order;
  stream.RunOnHost([&] { gate.Pass(); });
  for (int i = 0; i < 10; ++i) stream.RunOnHost([&order, i] { order.push_back(i); });
  EXPECT_FALSE(stream.idle());
  EXPECT_FALSE(stream.SynchronizeFor(std::chrono::milliseconds(5)));
  gate.Open();
  stream.Synchronize();
  EXPECT_TRUE(stream.idle());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Stream, WaitsForAnEventOfAnother) {
  const Device device(0);
  const Stream first;
  const Stream second;
  Event event;
  Gate gate;
  std::atomic<bool> first_done{false};
  bool saw_first_done = false;
  first.RunOnHost([&] {
    gate.Pass();
    first_done = true;
  });
  event.Record(first);
  second.WaitFor(event);
  second.RunOnHost([&] { saw_first_done = first_done; });
  EXPECT_FALSE(event.done());
  EXPECT_FALSE(second.SynchronizeFor(std::chrono::milliseconds(5)));
  gate.Open();
  second.Synchronize();
  EXPECT_TRUE(saw_first_done);
  EXPECT_TRUE(event.done());
}

TEST(Stream, DestructionFinishesTheWork) {
  const Device device(0);
  bool ran = false;
  {
    const Stream stream;
    stream.RunOnHost([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ran = true;
    });
  }
  EXPECT_TRUE(ran);
}

TEST(Event, IsDoneBeforeItsFirstRecordAndCanBeRecordedAgain) {
  const Device device(0);
  const Stream stream;
  Event event;
  EXPECT_TRUE(event.done());
  for (int i = 0; i < 3; ++i) {
    Gate gate;
    stream.RunOnHost([&] { gate.Pass(); });
    event.Record(stream);
    EXPECT_FALSE(event.done());
    gate.Open();
    event.Wait();
    EXPECT_TRUE(event.done());
  }
}

TEST(Event, SurvivesAMove) {
  const Device device(0);
  const Stream stream;
  Event event;
  Event moved = std::move(event);
  moved.Record(stream);
  moved.Wait();
  EXPECT_TRUE(moved.done());
  EXPECT_EQ(event.handle(), nullptr);  // NOLINT: the point is that a moved-from event is empty
}

TEST(Event, TimedOnesMeasureTheWorkBetween) {
  const Device device(0);
  const Stream stream;
  Event start(EventKind::kTimed);
  Event end(EventKind::kTimed);
  start.Record(stream);
  stream.RunOnHost([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  end.Record(stream);
  end.Wait();
  EXPECT_GE(ElapsedMilliseconds(start, end), 19.9);
}

TEST(Event, UntimedOnesRefuseToMeasure) {
  const Device device(0);
  const Stream stream;
  Event start;
  Event end;
  start.Record(stream);
  end.Record(stream);
  end.Wait();
  EXPECT_THROW(ElapsedMilliseconds(start, end), Error);
}

}  // namespace
}  // namespace trireme
