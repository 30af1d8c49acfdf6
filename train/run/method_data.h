// The data of a run as its method opens it, for a run that is only planned. No torch.
#pragma once

#include <optional>

#include "core/config.pb.h"
#include "data/dataset.h"

namespace trireme {

// Nothing where the configuration names none. Refuses what the method would, and rewards that will fail.
std::optional<DataSets> OpenMethodData(const Config& config, const DataPlace& place);

}  // namespace trireme
