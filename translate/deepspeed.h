// DeepSpeed's configuration, by name (zero3) or as a JSON file, as parallel.zero and memory.
#pragma once

#include "translate/given.h"
#include "translate/translation.h"

namespace trireme {

// A file that does not exist here is known by its name (ds_z3_offload_config.json), or refused.
void SetZero(const Setting& setting, Translation& result);

}  // namespace trireme
