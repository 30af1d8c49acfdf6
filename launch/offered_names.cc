#include "launch/offered_names.h"

#include "core/config/names.h"
#include "ops/switches.h"
#include "parallel/schedule/schedules.h"
#include "parallel/sharding/optimizers.h"

namespace trireme {

void OfferNamesOfLists() {
  OfferNames("ops.off", OperatorNames());
  OfferNames("optimizer.name", OptimizerNames(), OptimizerMeanings());
  OfferNames("parallel.schedule", ScheduleNames(), ScheduleMeanings());
}

}  // namespace trireme
