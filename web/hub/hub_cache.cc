#include "web/hub/hub_cache.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "web/hub/hub_settings.h"
#include "web/hub/modelscope_cache.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// refs/main holds the commit that a branch was at; a revision may also be a commit itself.
fs::path HuggingFaceSnapshot(const HubName& name) {
  const fs::path repository = HuggingFaceRepository(name);
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  const fs::path ref = repository / "refs" / revision;
  std::string commit = revision;
  if (PathExists(ref)) {
    commit = ReadTextFile(ref.string());
    commit.erase(
        std::find_if(commit.begin(), commit.end(), [](unsigned char letter) { return std::isspace(letter) != 0; }),
        commit.end());
  }
  return repository / "snapshots" / commit;
}

void AddModelScope(const HubName& name, std::vector<fs::path>& places) {
  for (const fs::path& folder : ModelScopeFolders(name)) places.push_back(folder);
}

bool HasShards(const fs::path& directory, const fs::path& index) {
  const nlohmann::json parsed = ParseSortedJson(ReadTextFile(index.string()), index.string());
  const auto map = parsed.is_object() ? parsed.find("weight_map") : parsed.end();
  if (map == parsed.end() || !map->is_object()) return true;  // broken: the reader of weights says how
  return std::ranges::all_of(*map, [&](const nlohmann::json& file) {
    return !file.is_string() || PathExists(directory / file.get<std::string>());
  });
}

// A download that was interrupted leaves the small files, which come first, without the weights.
bool HasWeights(const fs::path& directory) {
  const fs::path index = directory / "model.safetensors.index.json";
  if (PathExists(index)) return HasShards(directory, index);
  return PathExists(directory / "model.safetensors") || PathExists(directory / "adapter_model.safetensors");
}

}  // namespace

fs::path HuggingFaceRepository(const HubName& name) {
  return HuggingFaceCache() / Concat(name.kinds(), "--", name.owner, "--", name.name);
}

namespace {

std::optional<CachedSnapshot> SnapshotIn(const fs::path& folder) {
  CachedSnapshot found{folder.filename().string(), folder, {}};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;  // a link whose blob was removed
    if (entry->is_regular_file(gone)) found.files.push_back(entry->path().lexically_relative(folder).string());
  }
  if (found.files.empty()) return std::nullopt;
  std::ranges::sort(found.files);
  return found;
}

}  // namespace

std::optional<CachedSnapshot> FindSnapshot(const HubName& name) {
  if (!name.on_modelscope) return SnapshotIn(HuggingFaceSnapshot(name));
  for (const fs::path& folder : ModelScopeFolders(name)) {
    if (auto found = SnapshotIn(folder)) return found;
  }
  return std::nullopt;
}

CachedModel FindCached(const HubName& name) {
  CachedModel found;
  const bool modelscope_first = PrefersModelScope();
  if (modelscope_first) AddModelScope(name, found.looked);
  found.looked.push_back(HuggingFaceSnapshot(name));
  if (!modelscope_first) AddModelScope(name, found.looked);
  for (const fs::path& place : found.looked) {
    if (!PathExists(place / "config.json") && !PathExists(place / "adapter_config.json")) continue;
    found.whole = HasWeights(place);
    if (found.directory.empty() || found.whole) found.directory = place.string();
    if (found.whole) break;
  }
  return found;
}

std::string NotCached(const std::string& path, const CachedModel& cached) {
  return Concat(path, " is neither a directory nor in a hub's cache (looked for ",
                Join(cached.looked, ", ", [](const fs::path& place) { return place.string(); }), ")");
}

std::string ModelDirectory(const std::string& path, const std::string& key) {
  const std::optional<HubName> name = ParseHubName(path);
  if (!name || PathExists(path)) return path;
  const CachedModel cached = FindCached(*name);
  if (!cached.directory.empty()) return cached.directory;
  const std::string why = WhyNoDownloads();
  throw InputError(key, ": ", NotCached(path, cached),
                   why.empty() ? "" : Concat(", and ", why, ", so that nothing is downloaded"), "; use hf download ",
                   name->id(), ", or modelscope download --model ", name->id());
}

}  // namespace trireme
