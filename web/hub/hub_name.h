// Names of models on hubs: OWNER/NAME, perhaps with @REVISION. No torch.
#pragma once

#include <optional>
#include <string>

namespace trireme {

struct HubName {
  std::string owner, name, revision;  // an empty revision: the default one

  std::string id() const { return owner + "/" + name; }
};

// Nothing: it is not shaped like one.
std::optional<HubName> ParseHubName(const std::string& text);

}  // namespace trireme
