// Goodput: the share of a run's time that ends up in the model when ranks fail: what saves, lost steps and recoveries
// leave. A closed form, and the same run as events with drawn failures, which checks it. Knows no model and no device.
#pragma once

#include <cstdint>

namespace trireme {

struct FailingRun {    // seconds
  double step = 0;     // of training
  double save = 0;     // that a save stops training: the copy to host memory
  double write = 0;    // that it is then written beside training; only afterwards can a run resume from it
  double recover = 0;  // from a failure to the next step: to notice it, to start again, to load
  double between = 0;  // failures of the whole job, on average; they come at random and do not age
};

struct Goodput {        // shares of the time; they add up to 1
  double steps = 0;     // that are kept: the goodput
  double saves = 0;     // with waiting for the write of the save before
  double repeated = 0;  // steps and saves that a failure undid
  double recovery = 0;
};

// The expected shares of a long run that saves after so many steps.
Goodput ExpectedGoodput(const FailingRun& run, int64_t save_every);

// The number of steps with the highest goodput. A run that gets nowhere, however often it saves, is an input error.
int64_t BestSaveEvery(const FailingRun& run);

// Seconds of training between saves by Young (1974) and Daly (2006), who know no write beside training.
double YoungInterval(const FailingRun& run);
double DalyInterval(const FailingRun& run);

struct DrawnGoodput {
  double steps = 0;  // share of the time, as in Goodput
  double error = 0;  // one standard error of it
  int64_t failures = 0;
};

// The run as events until it has failed often enough for a small error. The same seed draws the same failures.
DrawnGoodput DrawGoodput(const FailingRun& run, int64_t save_every, uint64_t seed);

}  // namespace trireme
