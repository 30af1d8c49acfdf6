// The layer graph of the teacher of stage gkd, for checks and plans: its weights are read later. No torch.
#pragma once

#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

LayerGraph TeacherGraph(const Config& config);

// Refuses one with another number of tokens than the student's, or without weights. None is named: nothing to refuse.
void CheckTeacher(const Config& config, int64_t vocabulary);

}  // namespace trireme
