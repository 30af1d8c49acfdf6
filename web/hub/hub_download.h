// A model, or files of a data set, from a hub into its library's cache. Into huggingface_hub's, as that lays it out:
// blobs by their digests, snapshots/COMMIT with links to them, refs/REVISION with the commit. What is there already, of
// any program, is not downloaded again. Of a model's files only those that are needed here (hub_files.h). No torch.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "web/hub/hub_name.h"
#include "web/hub/hub_source.h"

namespace trireme {

enum class HubParts {
  kAll,
  kWithoutWeights,  // for what is only planned
};

// The snapshot's directory. Several processes may call it at once: each file is downloaded by one. An error says what
// is wrong, but not for which key of the configuration.
std::filesystem::path DownloadModel(const HubName& name, HubParts parts = HubParts::kAll);

// The server that has it.
std::unique_ptr<HubSource> OpenHub(const HubName& name);

// The same for these files of a listing: the snapshot's directory, in which they are whole when this returns.
std::filesystem::path DownloadFiles(const HubSource& hub, const HubListing& listing,
                                    const std::vector<std::string>& files);

}  // namespace trireme
