// Whether there is room for what is to be downloaded. No torch.
#pragma once

#include <cstdint>
#include <filesystem>

#include "web/hub/hub_source.h"

namespace trireme {

// An input error that says how much is missing, and which variable names another directory.
void RefuseWithoutSpace(const std::filesystem::path& folder, int64_t missing_bytes, const HubSource& hub);

}  // namespace trireme
