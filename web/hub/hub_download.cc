#include "web/hub/hub_download.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/io/atomic_file.h"
#include "core/io/user_cache.h"
#include "web/hub/fetch_blob.h"
#include "web/hub/free_space.h"
#include "web/hub/hub_api.h"
#include "web/hub/hub_cache.h"
#include "web/hub/hub_files.h"
#include "web/hub/hub_settings.h"
#include "web/hub/modelscope_api.h"
#include "web/hub/modelscope_cache.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kCacheTag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of what comes from a hub: backups need not have it.\n";

constexpr char kWhat[] = "what comes from a hub", kVariable[] = "HF_HUB_CACHE";

struct HubSnapshot {
  fs::path cache, repository;
  std::string commit;
  std::vector<HubFile> files;

  fs::path blob(const HubFile& file) const { return repository / "blobs" / file.digest; }
  fs::path folder() const { return repository / "snapshots" / commit; }
  fs::path locks() const { return cache / ".locks" / repository.filename(); }
};

std::vector<std::string> FilesOfModel(const HubSource& hub, const HubListing& listing, HubParts parts) {
  std::vector<std::string> needed = NeededFiles(listing.files);
  if (needed.empty() || !MakesAModel(needed.back())) {
    throw InputError(hub.who(), " has neither config.json nor adapter_config.json among its ",
                     Counted(std::ssize(listing.files), "file"), "; wanted a model that transformers or PEFT can load");
  }
  if (parts == HubParts::kWithoutWeights)
    std::erase_if(needed, [](const std::string& file) { return file.ends_with(".safetensors"); });
  return needed;
}

int64_t MissingBytes(const HubSnapshot& snapshot) {
  int64_t missing = 0;
  std::set<std::string> counted;
  for (const HubFile& file : snapshot.files) {
    if (PathExists(snapshot.blob(file)) || !counted.insert(file.digest).second) continue;
    std::error_code absent;
    const auto here = fs::file_size(snapshot.blob(file).string() + ".incomplete", absent);
    missing += file.size - (absent ? 0 : std::min(file.size, static_cast<int64_t>(here)));
  }
  return missing;
}

void MakeFolders(const HubSnapshot& snapshot) {
  for (const fs::path& folder :
       {snapshot.repository / "blobs", snapshot.repository / "refs", snapshot.folder(), snapshot.locks()}) {
    MakeUserCache(folder, kWhat, kVariable);
  }
  const fs::path tag = snapshot.cache / "CACHEDIR.TAG";
  if (!PathExists(tag)) WriteAtomicFile(tag, kCacheTag);
}

void Fetch(const HubSource& hub, const HubSnapshot& snapshot) {
  const int64_t total = std::accumulate(snapshot.files.begin(), snapshot.files.end(), int64_t{0},
                                        [](int64_t sum, const HubFile& file) { return sum + file.size; });
  const int64_t missing = MissingBytes(snapshot);
  RefuseWithoutSpace(snapshot.repository, missing, hub);
  TRIREME_LOG(INFO) << hub.who() << ", commit " << snapshot.commit << ": "
                    << Counted(std::ssize(snapshot.files), "file") << ", " << SizeText(total) << ", of which "
                    << SizeText(missing) << " are downloaded to " << snapshot.repository.string();
  DownloadProgress progress(hub.name().id(), total);
  for (const HubFile& file : snapshot.files) {
    const FileLock lock(snapshot.locks() / (file.digest + ".lock"), [&] {
      TRIREME_LOG(INFO) << hub.name().id() << ": another process downloads " << file.name << "; waiting for it";
    });
    if (!PathExists(snapshot.blob(file))) FetchBlob(hub, snapshot.commit, file, snapshot.blob(file), progress);
    progress.FileIsHere(file.size);
  }
}

// Under another name first: half a file of a process that was killed would be taken for a whole one.
void CopyWhole(const HubSnapshot& snapshot, const HubFile& file, const fs::path& name, std::error_code& error) {
  const FileLock lock(snapshot.locks() / (file.digest + ".lock"), [] {});
  const fs::path aside = name.string() + ".incomplete";
  fs::copy_file(snapshot.blob(file), aside, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(aside, name, error);
}

// As relative links, so that a cache may be moved; the file itself where there are no links.
void Link(const HubSnapshot& snapshot, const HubFile& file) {
  const fs::path name = snapshot.folder() / file.name;
  const fs::path target = snapshot.blob(file).lexically_relative(name.parent_path());
  std::error_code error;
  if (PathExists(name)) return;
  if (name.parent_path() != snapshot.folder()) MakeUserCache(name.parent_path(), kWhat, kVariable);
  fs::remove(name, error);  // a link whose blob was removed
  if (symlink(target.c_str(), name.c_str()) == 0 || errno == EEXIST) return;
  const int why = errno;
  CopyWhole(snapshot, file, name, error);
  if (error)
    throw InputError(name.string(), ": cannot be made: ", std::strerror(why),
                     "; set HF_HUB_CACHE to another directory");
}

// refs/convert/parquet is a file in two folders.
void KeepRevision(const HubSnapshot& snapshot, const HubName& name) {
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  if (revision == snapshot.commit) return;
  const fs::path ref = snapshot.repository / "refs" / revision;
  MakeUserCache(ref.parent_path(), kWhat, kVariable);
  WriteAtomicFile(ref, snapshot.commit);
}

}  // namespace

std::unique_ptr<HubSource> OpenHub(const HubName& name) {
  if (name.on_modelscope) return std::make_unique<ModelScopeApi>(name, ReadModelScopeServer());
  return std::make_unique<HubApi>(name, ReadHubServer());
}

fs::path DownloadFiles(const HubSource& hub, const HubListing& listing, const std::vector<std::string>& files) {
  if (hub.name().on_modelscope) return DownloadToModelScopeCache(hub, listing, files);
  HubSnapshot snapshot{HuggingFaceCache(), HuggingFaceRepository(hub.name()), listing.commit, {}};
  for (const std::string& file : files) snapshot.files.push_back(hub.Describe(listing.commit, file));
  MakeFolders(snapshot);
  Fetch(hub, snapshot);
  for (const HubFile& file : snapshot.files) Link(snapshot, file);
  KeepRevision(snapshot, hub.name());
  return snapshot.folder();
}

fs::path DownloadModel(const HubName& name, HubParts parts) {
  const std::unique_ptr<HubSource> hub = OpenHub(name);
  const HubListing listing = hub->List();
  fs::path folder = DownloadFiles(*hub, listing, FilesOfModel(*hub, listing, parts));
  TRIREME_LOG(INFO) << name.id() << " is in " << folder.string();
  return folder;
}

}  // namespace trireme
