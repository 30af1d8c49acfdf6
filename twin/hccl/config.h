// What a program sets for a communicator: HcclCommConfig over HcclSetConfig over the environment.
#pragma once

#include <optional>
#include <string>

#include "twin/hccl/group.h"
#include "twin/hccl/settings.h"

namespace twin {

struct CommSettings {
  GroupOptions options;
  std::string name;  // empty: not given
};

// `config` may be nullptr. Its magic is checked, and only as many bytes are read as it says it has: programs
// built against other versions of the header pass shorter or longer ones.
CommSettings Resolve(const Settings& settings, const HcclCommConfig* config);

// HcclSetConfig(HCCL_DETERMINISTIC): holds for communicators made afterwards.
void SetProcessDeterministic(bool on);
std::optional<bool> ProcessDeterministic();

}  // namespace twin
