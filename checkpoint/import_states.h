// ImportWithStates: a checkpoint from which a run resumes, of weights and an optimizer's states that another system
// wrote.
#pragma once

#include <filesystem>

#include "checkpoint/convert.h"
#include "checkpoint/stored_states.h"

namespace trireme {

// As ImportCheckpoint. `states` are those of `source`.
void ImportWithStates(const HfDirectory& source, const StoredStates& states, const std::filesystem::path& target,
                      const ConvertOptions& options, const ProcessGroup& process_group);

}  // namespace trireme
