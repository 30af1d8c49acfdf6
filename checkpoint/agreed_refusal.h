// What one rank of a conversion refuses while it writes, all ranks refuse, and nothing is left.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/process_group.h"

namespace trireme {

// After the last write of all ranks into the temporary directory `part`, which is removed where a rank refuses.
// Collective.
void AgreeOnRefusal(const std::filesystem::path& part, const std::optional<std::string>& mine,
                    const ProcessGroup& process_group);

}  // namespace trireme
