// From another system's run to a run.yaml.
#pragma once

#include "translate/inputs.h"
#include "translate/translation.h"

namespace trireme {

Translation Translate(const FoundRun& run, const Surroundings& around);

}  // namespace trireme
