// Names of repositories on hubs, of models and of data sets: OWNER/NAME, perhaps with @REVISION. No torch.
#pragma once

#include <optional>
#include <string>

namespace trireme {

enum class HubKind { kModel, kDataSet };

struct HubName {
  std::string owner, name, revision;  // an empty revision: the default one
  HubKind kind = HubKind::kModel;
  bool on_modelscope = false;  // otherwise on a Hugging Face hub

  std::string id() const { return owner + "/" + name; }
  std::string kinds() const { return kind == HubKind::kModel ? "models" : "datasets"; }  // as hubs name the kind
  std::string noun() const { return kind == HubKind::kModel ? "model" : "data set"; }
};

// A model's, on the hub that the environment prefers. Nothing: it is not shaped like one.
std::optional<HubName> ParseHubName(const std::string& text);

}  // namespace trireme
