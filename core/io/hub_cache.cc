#include "core/io/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/home_path.h"
#include "core/base/text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct HubName {
  std::string owner, name, revision;  // an empty revision: the default one
};

bool IsPartOfName(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '.';
  });
  return plain && !text.empty() && text[0] != '.' && text.size() <= 96;
}

std::optional<HubName> ParseHubName(const std::string& text) {
  const size_t slash = text.find('/'), at = text.find('@');
  if (slash == std::string::npos || (at != std::string::npos && at < slash)) return std::nullopt;
  HubName name{text.substr(0, slash), text.substr(slash + 1, at == std::string::npos ? at : at - slash - 1), ""};
  if (at != std::string::npos) name.revision = text.substr(at + 1);
  if (!IsPartOfName(name.owner) || !IsPartOfName(name.name)) return std::nullopt;
  if (at != std::string::npos && !IsPartOfName(name.revision)) return std::nullopt;
  return name;
}

std::optional<fs::path> FromEnvironment(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == 0) return std::nullopt;
  return fs::path(ExpandHome(value));
}

// As huggingface_hub finds it.
fs::path HuggingFaceCache() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto cache = FromEnvironment(variable)) return *cache;
  }
  if (const auto home = FromEnvironment("HF_HOME")) return *home / "hub";
  const auto cache = FromEnvironment("XDG_CACHE_HOME");
  return cache.value_or(ExpandHome("~/.cache")) / "huggingface" / "hub";
}

// refs/main holds the commit that a branch was at; a revision may also be a commit itself.
void AddHuggingFace(const HubName& name, std::vector<fs::path>& places) {
  const fs::path repository = HuggingFaceCache() / Concat("models--", name.owner, "--", name.name);
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  const fs::path ref = repository / "refs" / revision;
  std::string commit = revision;
  if (PathExists(ref)) {
    commit = ReadTextFile(ref.string());
    commit.erase(std::find_if(commit.begin(), commit.end(), [](unsigned char letter) { return std::isspace(letter) != 0; }),
                 commit.end());
  }
  places.push_back(repository / "snapshots" / commit);
}

// ModelScope's own layout, and those of its earlier versions, which write dots of a name as ___.
void AddModelScope(const HubName& name, std::vector<fs::path>& places) {
  const fs::path cache = FromEnvironment("MODELSCOPE_CACHE").value_or(ExpandHome("~/.cache/modelscope"));
  const std::string revision = name.revision.empty() ? "master" : name.revision;
  places.push_back(cache / "models" / Concat(name.owner, "--", name.name) / "snapshots" / revision);
  if (!name.revision.empty()) return;
  std::string escaped = name.name;
  for (size_t dot; (dot = escaped.find('.')) != std::string::npos;) escaped.replace(dot, 1, "___");
  for (const char* folder : {"models", "hub/models", "hub"}) places.push_back(cache / folder / name.owner / escaped);
}

bool IsTrue(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && (std::string_view(value) == "1" || std::string_view(value) == "true");
}

}  // namespace

std::string ModelDirectory(const std::string& path, const std::string& key) {
  const std::optional<HubName> name = ParseHubName(path);
  if (!name || PathExists(path)) return path;
  std::vector<fs::path> places;
  const bool modelscope_first = IsTrue("USE_MODELSCOPE_HUB");
  if (modelscope_first) AddModelScope(*name, places);
  AddHuggingFace(*name, places);
  if (!modelscope_first) AddModelScope(*name, places);
  for (const fs::path& place : places) {
    if (PathExists(place / "config.json") || PathExists(place / "adapter_config.json")) return place.string();
  }
  const std::string full = Concat(name->owner, "/", name->name);
  throw InputError(key, ": ", path, " is neither a directory nor in a hub's cache: looked for ",
                   Join(places, ", ", [](const fs::path& place) { return place.string(); }), "; nothing is downloaded here: use ",
                   "hf download ", full, ", or modelscope download --model ", full);
}

}  // namespace trireme
