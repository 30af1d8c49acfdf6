// A model from a Hugging Face hub into huggingface_hub's cache, as that lays it out: blobs by their digests,
// snapshots/COMMIT with links to them, refs/REVISION with the commit. What is there already, of any program, is not
// downloaded again. Of the hub's files only those that are needed here (hub_files.h). No torch.
#pragma once

#include <filesystem>

#include "web/hub/hub_name.h"

namespace trireme {

enum class HubParts {
  kAll,
  kWithoutWeights,  // for what is only planned
};

// The snapshot's directory. Several processes may call it at once: each file is downloaded by one. An error says what
// is wrong, but not for which key of the configuration.
std::filesystem::path DownloadModel(const HubName& name, HubParts parts = HubParts::kAll);

}  // namespace trireme
