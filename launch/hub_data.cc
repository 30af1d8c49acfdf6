#include "launch/hub_data.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/io/user_cache.h"
#include "data/hub/file_glob.h"
#include "data/hub/hub_set.h"
#include "data/hub/parquet_export.h"
#include "data/hub/repository_files.h"
#include "data/hub/split_files.h"
#include "data/prepare.h"
#include "data/records.h"
#include "data/source_name.h"
#include "launch/host_turns.h"
#include "web/hub/hub_cache.h"
#include "web/hub/hub_download.h"
#include "web/hub/hub_files.h"
#include "web/hub/hub_settings.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct HubEntry {
  std::string key, title;
};

std::vector<HubEntry> HubEntries(const Config& config) {
  std::vector<HubEntry> entries;
  for (const auto& [key, list] :
       {std::pair{"data.train", &config.data().train()}, std::pair{"data.valid", &config.data().valid()}}) {
    for (const std::string& entry : *list) {
      if (const auto title = HubTitle(entry, key, config)) entries.push_back({key, *title});
    }
  }
  return entries;
}

bool IsReadable(const std::string& file) { return HoldsRecords(file); }

// A repository of which the files are in `folder`, as far as they were downloaded.
Repository RepositoryIn(const fs::path& folder, std::string who, std::vector<std::string> files) {
  Repository repository{std::move(who), std::move(files), {}, IsReadable};
  for (const std::string& card : CardFiles(repository.files)) {
    const std::string text = ReadTextFile((folder / card).string());
    std::vector<CardSubset> subsets = ReadCard(text, Concat(repository.who, ": ", card), card != "README.md");
    if (!subsets.empty()) repository.card = std::move(subsets);
  }
  return repository;
}

HubSet SetOf(const std::string& commit, const fs::path& folder, const std::vector<std::string>& files) {
  HubSet set{commit, {}};
  for (const std::string& file : files) set.files.push_back(folder / file);
  return set;
}

HubSet FromCache(const HubSetName& wanted, const CachedSnapshot& cached) {
  const std::vector<std::string> files =
      FilesAskedFor(RepositoryIn(cached.folder, cached.folder.string(), cached.files), wanted);
  const std::string missing = MissingShard(files);
  if (!missing.empty())
    throw InputError(cached.folder.string(), " has ", missing, "; download it whole, as with hf download ",
                     "--repo-type dataset ", wanted.id());
  return SetOf(cached.commit, cached.folder, files);
}

std::vector<std::string> Distinct(std::vector<std::string> files) {
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

// Of the hub's own conversion of the default revision. Nothing: it has none.
std::optional<HubSet> FromConversion(const HubSource& hub, const HubSetName& wanted) {
  HubName name = hub.name();
  if (name.on_modelscope || !(name.revision.empty() || name.revision == "main")) return std::nullopt;
  name.revision = kParquetBranch;
  const std::unique_ptr<HubSource> branch = OpenHub(name);
  HubListing listing;
  try {
    listing = branch->List();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInput) return std::nullopt;
    throw;
  }
  const Repository repository{branch->who(), listing.files, ExportedSubsets(listing.files), IsReadable};
  if (repository.card.empty()) return std::nullopt;
  TRIREME_LOG(INFO) << hub.who() << ": the hub's conversion to Parquet is read";
  const std::vector<std::string> files = FilesAskedFor(repository, wanted);
  return SetOf(listing.commit, DownloadFiles(*branch, listing, Distinct(files)), files);
}

HubSet FromFiles(const HubSource& hub, const HubListing& listing, const HubSetName& wanted) {
  std::vector<std::string> all = listing.files;
  std::erase_if(all, [](const std::string& file) { return !IsSafeName(file); });
  const std::vector<std::string> cards = CardFiles(all);
  fs::path folder;
  if (!cards.empty()) folder = DownloadFiles(hub, listing, cards);
  const std::vector<std::string> files = FilesAskedFor(RepositoryIn(folder, hub.who(), all), wanted);
  folder = DownloadFiles(hub, listing, Distinct(files));
  return SetOf(listing.commit, folder, files);
}

// Files that are not read here, and rows that only a program makes, may have been converted.
HubSet FromHub(const HubSource& hub, const HubListing& listing, const HubSetName& wanted) {
  if (NeedsCode(listing.files, wanted.name)) {
    if (auto set = FromConversion(hub, wanted)) return *set;
    throw InputError(hub.who(), " needs code (", wanted.name,
                     ".py), which is never run, and the hub has no conversion ",
                     "to Parquet; write its records into a file");
  }
  if (std::ranges::none_of(MatchingFiles("**", listing.files), IsReadable)) {
    if (auto set = FromConversion(hub, wanted)) return *set;
  }
  return FromFiles(hub, listing, wanted);
}

HubName HubNameOf(const HubSetName& wanted) {
  const bool modelscope = wanted.hub == SetHub::kDefault ? PrefersModelScope() : wanted.hub == SetHub::kModelScope;
  return {wanted.owner, wanted.name, wanted.revision, HubKind::kDataSet, modelscope};
}

HubSet OfflineSet(const HubSetName& wanted, const std::optional<CachedSnapshot>& cached, const std::string& why) {
  if (cached) return FromCache(wanted, *cached);
  throw InputError("it is not in a cache, and ", why, ", so that nothing is downloaded; use hf download ",
                   "--repo-type dataset ", wanted.id(), ", or modelscope download --dataset ", wanted.id());
}

// A hub that does not answer, or refuses, is no reason to stop if the files are here. Nothing: they are not.
std::optional<HubSet> InsteadOfHub(const HubSetName& wanted, const CachedSnapshot& cached, const Error& refusal) {
  try {
    HubSet set = FromCache(wanted, cached);
    TRIREME_LOG(WARNING) << refusal.what() << "; what was downloaded earlier is used";
    return set;
  } catch (const Error&) {
    return std::nullopt;
  }
}

HubSet FindOrDownload(const HubSetName& wanted) {
  const HubName name = HubNameOf(wanted);
  const std::optional<CachedSnapshot> cached = FindSnapshot(name);
  const std::string offline = WhyNoDownloads();
  if (!offline.empty()) return OfflineSet(wanted, cached, offline);
  const std::unique_ptr<HubSource> hub = OpenHub(name);
  HubListing listing;
  try {
    listing = hub->List();
  } catch (const Error& error) {
    if (auto set = cached ? InsteadOfHub(wanted, *cached, error) : std::nullopt) return *set;
    throw;
  }
  return FromHub(*hub, listing, wanted);
}

void HaveEntry(const HubEntry& entry, const fs::path& cache) {
  if (FindHubSet(cache, entry.title)) return;
  try {
    const HubSet set = FindOrDownload(*ParseHubSetName(entry.title));
    MakeUserCache(cache / "hub", "data", "data.cache");
    KeepHubSet(cache, entry.title, set);
    TRIREME_LOG(INFO) << entry.key << ": " << entry.title << " is commit " << set.commit << " with "
                      << Counted(std::ssize(set.files), "file") << ", as " << HubSetFile(cache, entry.title).string()
                      << " says from now on";
  } catch (const Error& error) {
    throw InputError(entry.key, ": ", entry.title,
                     " is neither a file nor a directory, and not to be had from a hub: ", error.what());
  }
}

}  // namespace

void HaveHubData(const Config& config) {
  for (const HubEntry& entry : HubEntries(config)) HaveEntry(entry, DataCacheOf(config.data()));
}

void HaveHubData(const Config& config, Job& job) {
  const std::vector<HubEntry> entries = HubEntries(config);
  if (entries.empty()) return;
  const fs::path cache = DataCacheOf(config.data());
  const auto is_missing = [&] {
    return std::ranges::any_of(entries, [&](const HubEntry& entry) { return !FindHubSet(cache, entry.title); });
  };
  FetchInTurns(job, is_missing, [&] { HaveHubData(config); });
}

}  // namespace trireme
