// Whether the host posts the experts' exchange of tokens in sizes that it expects, instead of waiting for what routers
// chose (parallel/experts/expected_rows.h): experts.exchange. No torch.
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Where a training step uses them. npu: the device waits to be told what to do, and asking it costs time.
bool ExpectsExchange(const Config& config, bool npu);

// Refuses experts.exchange: expected where sizes are exact whatever it says.
void CheckExchange(const Config& config);

}  // namespace trireme
