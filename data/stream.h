// The training data of a run with data.streaming: which keys go with it, and its rows (stream_rows.h).
#pragma once

#include "core/config.pb.h"
#include "data/dataset.h"
#include "data/row_views.h"

namespace trireme {

// Refuses what does not go with data.streaming, before anything is read.
void CheckStreaming(const Config& config);

// Reads nothing yet: the first row that is asked for tokenizes the first records.
Rows OpenStream(const Config& config, const DataPlace& place);

}  // namespace trireme
