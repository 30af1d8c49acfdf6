// A communicator's settings: HcclCommConfig takes precedence over HcclSetConfig, which does over the
// environment.
#pragma once

#include <optional>
#include <string>

#include "twin/hccl/membership/group.h"
#include "twin/hccl/settings.h"

namespace twin {

struct CommSettings {
  GroupOptions options;
  std::string name;  // empty: unset
};

// `config` may be nullptr. Its magic is checked, and only as many bytes are read as its size field states:
// programs built against other versions of the header pass shorter or longer ones.
CommSettings Resolve(const Settings& settings, const HcclCommConfig* config);

// HcclSetConfig(HCCL_DETERMINISTIC): applies to communicators created afterwards.
void SetProcessDeterministic(bool on);
std::optional<bool> ProcessDeterministic();

}  // namespace twin
