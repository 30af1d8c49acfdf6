// A segment is `save_every` steps and the save after them. Failures do not age, so a run has two states at the start of
// a segment: the last save is written, or it is being written and a failure before its end also undoes the segment
// before.
#include "cost/goodput.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr double kNowhere = 1e-6;  // a goodput that is none

double StepsOf(const FailingRun& run, int64_t save_every) { return run.step * static_cast<double>(save_every); }

}  // namespace

Goodput ExpectedGoodput(const FailingRun& run, int64_t save_every) {
  const double rate = 1 / run.between, steps = StepsOf(run, save_every);
  const double wait = std::max(run.write - steps, 0.0);  // a save begins only when the one before is written
  const double after_written = steps + run.save, after_begun = after_written + wait;
  const double recovery = std::expm1(rate * run.recover) / rate;  // it may fail, too
  const double from_written = std::exp(rate * run.recover) * std::expm1(rate * after_written) / rate;
  const double keeps_before = std::exp(-rate * run.write), fails = -std::expm1(-rate * after_begun);
  const double passes = (fails / rate + fails * (recovery + from_written)) / keeps_before;
  Goodput goodput{.steps = steps / passes};
  goodput.saves = (run.save + wait * (1 - fails) / keeps_before) / passes;
  goodput.recovery = -std::expm1(-rate * run.recover);
  goodput.repeated = std::max(0.0, 1 - goodput.steps - goodput.saves - goodput.recovery);
  return goodput;
}

int64_t BestSaveEvery(const FailingRun& run) {
  const auto at = [&](int64_t save_every) { return ExpectedGoodput(run, save_every).steps; };
  // Goodput rises up to the best one and falls from there. Segments of a hundred means fail always.
  int64_t least = 1, most = std::max<int64_t>(2, std::llround(100 * run.between / run.step));
  while (most - least > 2) {
    const int64_t low = least + (most - least) / 3, high = most - (most - least) / 3;
    if (at(low) >= at(high)) {
      most = high;
    } else {
      least = low;
    }
  }
  int64_t best = least;
  for (int64_t candidate = least; candidate <= most; ++candidate) {
    if (at(candidate) > at(best)) best = candidate;
  }
  if (!(at(best) > kNowhere)) {
    throw InputError("a failure every ", run.between, " s leaves no time for a step of ", run.step, " s, a save of ",
                     run.save + run.write, " s and a recovery of ", run.recover, " s; shorten one of them");
  }
  return best;
}

double YoungInterval(const FailingRun& run) { return std::sqrt(2 * run.save * run.between); }

double DalyInterval(const FailingRun& run) {
  if (run.save >= 2 * run.between) return run.between;
  const double small = std::sqrt(run.save / (2 * run.between));
  return YoungInterval(run) * (1 + small / 3 + small * small / 9) - run.save;
}

}  // namespace trireme
