// Models and data sets by their name on a hub ("Qwen/Qwen3-8B"): where huggingface_hub and ModelScope keep what they
// have downloaded.
// Looks at directories only; hub_download.h downloads. No torch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "web/hub/hub_name.h"

namespace trireme {

struct CachedModel {
  std::string directory = {};                      // empty: it is in no cache
  bool whole = false;                              // as far as its own files tell, no weights are missing
  std::vector<std::filesystem::path> looked = {};  // all directories that it could be in
};
CachedModel FindCached(const HubName& name);

// "models--Qwen--Qwen3-8B", or "datasets--…", in huggingface_hub's cache.
std::filesystem::path HuggingFaceRepository(const HubName& name);

struct CachedSnapshot {
  std::string commit;
  std::filesystem::path folder;
  std::vector<std::string> files;  // those that are there, which need not be all of the repository
};
// What the cache of the library of its hub has of that revision; nothing: it has none of it.
std::optional<CachedSnapshot> FindSnapshot(const HubName& name);

// A path that exists is returned as it is, and so is anything that is not shaped like a name. Otherwise the directory
// of that model in a local cache. An input error, which begins with `key`, says where it was looked for.
std::string ModelDirectory(const std::string& path, const std::string& key);

// "Qwen/Qwen3-8B is neither a directory nor in a hub's cache (looked for …)": the beginning of an error.
std::string NotCached(const std::string& path, const CachedModel& cached);

}  // namespace trireme
