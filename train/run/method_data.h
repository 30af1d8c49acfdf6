// The data of a run as its method opens it, for those who only look at it. No torch.
#pragma once

#include <optional>

#include "core/config.pb.h"
#include "data/dataset.h"

namespace trireme {

// Nothing where the configuration names none.
std::optional<DataSets> OpenMethodData(const Config& config, const DataPlace& place);

}  // namespace trireme
