// ModelScope's cache: plain files below snapshots/REVISION, without blobs, and locks beside them. What is there already
// is downloaded again only if its digest is another. No torch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "web/hub/hub_source.h"

namespace trireme {

// A branch that every repository there has: master; main is the same to those who know other hubs.
std::string ModelScopeRevision(const HubName& name);

// "models/Qwen--Qwen3-8B/snapshots/master", as today's library has it; those of its earlier versions, which write dots
// of a name as ___, follow.
std::vector<std::filesystem::path> ModelScopeFolders(const HubName& name);

// These files of a listing: the snapshot's directory.
std::filesystem::path DownloadToModelScopeCache(const HubSource& hub, const HubListing& listing,
                                                const std::vector<std::string>& files);

}  // namespace trireme
