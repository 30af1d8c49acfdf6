// One file from a hub into a cache: resumed where an earlier download ended, verified, renamed. No torch.
#pragma once

#include <filesystem>
#include <string>

#include "web/hub/download_progress.h"
#include "web/hub/hub_source.h"

namespace trireme {

// `blob` exists and is verified when this returns; until then its bytes are in BLOB.incomplete. The caller holds the
// blob's lock; where a file system has none, two processes write the same bytes to the same positions. An input error
// if the bytes are not those of the digest, twice, or cannot be written.
void FetchBlob(const HubSource& hub, const std::string& commit, const HubFile& file, const std::filesystem::path& blob,
               DownloadProgress& progress);

}  // namespace trireme
