#include "web/hub/hub_cache.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "web/hub/hub_settings.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// refs/main holds the commit that a branch was at; a revision may also be a commit itself.
void AddHuggingFace(const HubName& name, std::vector<fs::path>& places) {
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
  places.push_back(repository / "snapshots" / commit);
}

// ModelScope's own layout, and those of its earlier versions, which write dots of a name as ___.
void AddModelScope(const HubName& name, std::vector<fs::path>& places) {
  const fs::path cache = ModelScopeCache();
  const std::string revision = name.revision.empty() ? "master" : name.revision;
  places.push_back(cache / "models" / Concat(name.owner, "--", name.name) / "snapshots" / revision);
  if (!name.revision.empty()) return;
  std::string escaped = name.name;
  for (size_t dot; (dot = escaped.find('.')) != std::string::npos;) escaped.replace(dot, 1, "___");
  for (const char* folder : {"models", "hub/models", "hub"}) places.push_back(cache / folder / name.owner / escaped);
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
  return HuggingFaceCache() / Concat("models--", name.owner, "--", name.name);
}

CachedModel FindCached(const HubName& name) {
  CachedModel found;
  const bool modelscope_first = PrefersModelScope();
  if (modelscope_first) AddModelScope(name, found.looked);
  AddHuggingFace(name, found.looked);
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
