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
#include "web/hub/hub_cache.h"
#include "web/hub/hub_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kCacheTag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of models from a hub: backups need not have it.\n";

struct HubSnapshot {
  fs::path cache, repository;
  std::string commit;
  std::vector<HubFile> files;

  fs::path blob(const HubFile& file) const { return repository / "blobs" / file.digest; }
  fs::path folder() const { return repository / "snapshots" / commit; }
  fs::path locks() const { return cache / ".locks" / repository.filename(); }
};

HubSnapshot Ask(const HubApi& hub, HubParts parts) {
  const HubListing listing = hub.List();
  HubSnapshot snapshot{HuggingFaceCache(), HuggingFaceRepository(hub.name()), listing.commit, {}};
  std::vector<std::string> needed = NeededFiles(listing.files);
  if (needed.empty() || !MakesAModel(needed.back())) {
    throw InputError(hub.who(), " has neither config.json nor adapter_config.json among its ",
                     Counted(std::ssize(listing.files), "file"), "; wanted a model that transformers or PEFT can load");
  }
  if (parts == HubParts::kWithoutWeights)
    std::erase_if(needed, [](const std::string& file) { return file.ends_with(".safetensors"); });
  for (const std::string& file : needed) snapshot.files.push_back(hub.Describe(listing.commit, file));
  return snapshot;
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
    MakeUserCache(folder, "a model from a hub", "HF_HUB_CACHE");
  }
  const fs::path tag = snapshot.cache / "CACHEDIR.TAG";
  if (!PathExists(tag)) WriteAtomicFile(tag, kCacheTag);
}

void RefuseWithoutSpace(const HubSnapshot& snapshot, int64_t missing) {
  std::error_code unknown;
  const fs::space_info space = fs::space(snapshot.repository, unknown);
  if (unknown || space.available == static_cast<std::uintmax_t>(-1) ||
      static_cast<std::uintmax_t>(missing) <= space.available)
    return;
  throw InputError(SizeText(missing), " are missing, and ", snapshot.cache.string(), " has room for ",
                   SizeText(static_cast<int64_t>(space.available)),
                   "; free some, or set HF_HUB_CACHE to another directory");
}

void Fetch(const HubApi& hub, const HubSnapshot& snapshot) {
  const int64_t total = std::accumulate(snapshot.files.begin(), snapshot.files.end(), int64_t{0},
                                        [](int64_t sum, const HubFile& file) { return sum + file.size; });
  const int64_t missing = MissingBytes(snapshot);
  RefuseWithoutSpace(snapshot, missing);
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
  const fs::path name = snapshot.folder() / file.name, target = fs::path("../../blobs") / file.digest;
  std::error_code error;
  if (PathExists(name)) return;
  fs::remove(name, error);  // a link whose blob was removed
  if (symlink(target.c_str(), name.c_str()) == 0 || errno == EEXIST) return;
  const int why = errno;
  CopyWhole(snapshot, file, name, error);
  if (error)
    throw InputError(name.string(), ": cannot be made: ", std::strerror(why),
                     "; set HF_HUB_CACHE to another directory");
}

}  // namespace

fs::path DownloadModel(const HubName& name, HubParts parts) {
  const HubApi hub(name, ReadHubServer());
  const HubSnapshot snapshot = Ask(hub, parts);
  MakeFolders(snapshot);
  Fetch(hub, snapshot);
  for (const HubFile& file : snapshot.files) Link(snapshot, file);
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  if (revision != snapshot.commit) WriteAtomicFile(snapshot.repository / "refs" / revision, snapshot.commit);
  TRIREME_LOG(INFO) << name.id() << " is in " << snapshot.folder().string();
  return snapshot.folder();
}

}  // namespace trireme
