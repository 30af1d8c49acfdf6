#include "launch/offered_names.h"

#include "core/config/names.h"
#include "ops/switches.h"
#include "parallel/schedule/schedules.h"

namespace trireme {

void OfferNamesOfLists() {
  OfferNames("ops.off", OperatorNames());
  OfferNames("parallel.schedule", ScheduleNames(), ScheduleMeanings());
}

}  // namespace trireme
