#include "data/hub/hub_set.h"

#include <algorithm>
#include <cctype>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/io/atomic_file.h"
#include "core/io/digest.h"

namespace trireme {

namespace fs = std::filesystem;

// Legible, and with a digest, as two titles may have the same letters.
fs::path HubSetFile(const fs::path& cache, const std::string& title) {
  std::string name = title.substr(0, 100);
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.' && letter != '-') letter = '_';
  }
  return cache / "hub" / (name + "-" + Digest().Add(title).Hex().substr(0, 12) + ".json");
}

std::optional<HubSet> FindHubSet(const fs::path& cache, const std::string& title) {
  const fs::path kept = HubSetFile(cache, title);
  if (!PathExists(kept)) return std::nullopt;
  const Json json = TryParseJson(ReadTextFile(kept.string()));
  if (!json.is_object() || !json.contains("files") || json.value("name", Json()) != title) return std::nullopt;
  const Json commit = json.value("commit", Json());
  HubSet set{commit.is_string() ? commit.get<std::string>() : "", {}};
  for (const Json& file : json["files"]) {
    if (!file.is_string() || !PathExists(file.get<std::string>())) return std::nullopt;
    set.files.emplace_back(file.get<std::string>());
  }
  return set.files.empty() ? std::nullopt : std::optional(set);
}

void KeepHubSet(const fs::path& cache, const std::string& title, const HubSet& set) {
  Json files = Json::array();
  for (const fs::path& file : set.files) files.push_back(file.string());
  WriteAtomicFile(HubSetFile(cache, title),
                  JsonLine({{"name", title}, {"commit", set.commit}, {"files", std::move(files)}}) + "\n");
}

}  // namespace trireme
