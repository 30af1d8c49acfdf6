// Names of data sets on hubs as ms-swift spells them: [hf::|ms::]OWNER/NAME[:PART[/PART…]][?revision=REVISION]. Parts
// are subsets, and perhaps a split at the end. Opens nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

enum class SetHub { kDefault, kHuggingFace, kModelScope };

struct HubSetName {
  SetHub hub = SetHub::kDefault;
  std::string owner, name;
  std::vector<std::string> parts;
  std::string revision = {};  // empty: the hub's default

  std::string id() const { return owner + "/" + name; }
};

// Nothing: it is not shaped like one. Without a number of samples or a weight at its end.
std::optional<HubSetName> ParseHubSetName(const std::string& text);

}  // namespace trireme
