// The run as events: steps, saves, writes, failures and recoveries, one after another on one clock.
#include <algorithm>
#include <cmath>

#include "core/base/random.h"
#include "cost/goodput.h"

namespace trireme {
namespace {

class FailingRunEvents {
 public:
  FailingRunEvents(const FailingRun& run, int64_t save_every, uint64_t seed)
      : run_(run), steps_(run.step * static_cast<double>(save_every)), random_(seed, "failures") {
    failure_ = Draw();
  }

  // Until so many more failures, or so many saves where none comes.
  void Run(int64_t failures, int64_t saves) {
    const int64_t from = failures_;
    for (int64_t save = 0; save < saves && failures_ < from + failures; ++save) Segment();
  }

  double clock() const { return clock_; }
  double saved() const { return saved_; }
  int64_t failures() const { return failures_; }

 private:
  double Draw() { return clock_ - run_.between * std::log1p(-random_.Uniform(drawn_++)); }

  void Segment() {
    const double ready = std::max(clock_ + steps_, written_at_) + run_.save;
    if (ready <= failure_) {
      clock_ = ready;
      saved_ += steps_;
      written_at_ = clock_ + run_.write;
    } else {
      Recover();
    }
  }

  // Resumes from the newest save that was written: the one before, while the last is being written.
  void Recover() {
    if (failure_ < written_at_) saved_ -= steps_;
    while (true) {
      clock_ = failure_;
      failure_ = Draw();
      ++failures_;
      if (clock_ + run_.recover <= failure_) break;
    }
    clock_ += run_.recover;
    written_at_ = clock_;
  }

  const FailingRun& run_;
  const double steps_;  // seconds of training between saves
  const RandomStream random_;
  uint64_t drawn_ = 0;
  double clock_ = 0, failure_ = 0, written_at_ = 0;
  double saved_ = 0;  // seconds of training that the saves hold
  int64_t failures_ = 0;
};

}  // namespace

DrawnGoodput DrawGoodput(const FailingRun& run, int64_t save_every, uint64_t seed) {
  constexpr int kParts = 64;
  constexpr int64_t kFailures = 1000, kSaves = 50000;  // of a part
  FailingRunEvents events(run, save_every, seed);
  double squares = 0, sum = 0;
  for (int part = 0; part < kParts; ++part) {
    const double clock = events.clock(), saved = events.saved();
    events.Run(kFailures, kSaves);
    const double share = (events.saved() - saved) / (events.clock() - clock);
    sum += share;
    squares += share * share;
  }
  const double variance = std::max(0.0, squares / kParts - sum * sum / kParts / kParts);
  return {.steps = events.saved() / events.clock(),
          .error = std::sqrt(variance / (kParts - 1)),
          .failures = events.failures()};
}

}  // namespace trireme
