#include "launch/offered_names.h"

#include "core/config/names.h"
#include "ops/switches.h"

namespace trireme {

void OfferNamesOfLists() { OfferNames("ops.off", OperatorNames()); }

}  // namespace trireme
