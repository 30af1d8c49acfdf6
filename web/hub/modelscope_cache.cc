#include "web/hub/modelscope_cache.h"

#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/io/user_cache.h"
#include "web/hub/blob_digest.h"
#include "web/hub/fetch_blob.h"
#include "web/hub/free_space.h"
#include "web/hub/hub_settings.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kFromModelScope[] = "what comes from ModelScope";

// A revision is a branch, whose files change.
bool IsHere(const fs::path& path, const HubFile& file) {
  std::error_code absent;
  const auto size = fs::file_size(path, absent);
  return !absent && static_cast<int64_t>(size) == file.size && BlobDigest(path, file.digest.size()) == file.digest;
}

void FetchPlain(const HubSource& hub, const std::string& revision, const HubFile& file, const fs::path& folder,
                DownloadProgress& progress) {
  const fs::path path = folder / file.name;
  MakeUserCache(path.parent_path(), kFromModelScope, hub.cache_variable());
  const FileLock lock(folder.parent_path().parent_path() / ".lock" / (file.digest + ".lock"), [&] {
    TRIREME_LOG(INFO) << hub.name().id() << ": another process downloads " << file.name << "; waiting for it";
  });
  if (!IsHere(path, file)) FetchBlob(hub, revision, file, path, progress);
  progress.FileIsHere(file.size);
}

}  // namespace

std::string ModelScopeRevision(const HubName& name) {
  return name.revision.empty() || name.revision == "main" ? "master" : name.revision;
}

std::vector<fs::path> ModelScopeFolders(const HubName& name) {
  const fs::path cache = ModelScopeCache();
  std::vector<fs::path> folders = {cache / name.kinds() / Concat(name.owner, "--", name.name) / "snapshots" /
                                   ModelScopeRevision(name)};
  if (!name.revision.empty()) return folders;
  std::string escaped = name.name;
  for (size_t dot; (dot = escaped.find('.')) != std::string::npos;) escaped.replace(dot, 1, "___");
  for (const std::string& folder : {name.kinds(), "hub/" + name.kinds(), std::string("hub")})
    folders.push_back(cache / folder / name.owner / escaped);
  return folders;
}

fs::path DownloadToModelScopeCache(const HubSource& hub, const HubListing& listing,
                                   const std::vector<std::string>& files) {
  const fs::path folder = ModelScopeFolders(hub.name()).front();
  MakeUserCache(folder, kFromModelScope, hub.cache_variable());
  MakeUserCache(folder.parent_path().parent_path() / ".lock", kFromModelScope, hub.cache_variable());
  int64_t total = 0, missing = 0;
  std::vector<HubFile> described;
  for (const std::string& name : files) {
    const auto found = listing.described.find(name);
    described.push_back(found != listing.described.end() ? found->second : hub.Describe(listing.commit, name));
    total += described.back().size;
    if (!PathExists(folder / name)) missing += described.back().size;
  }
  RefuseWithoutSpace(folder, missing, hub);
  TRIREME_LOG(INFO) << hub.who() << ", revision " << listing.commit << ": " << Counted(std::ssize(files), "file")
                    << ", " << SizeText(total) << ", to " << folder.string();
  DownloadProgress progress(hub.name().id(), total);
  for (const HubFile& file : described) FetchPlain(hub, listing.commit, file, folder, progress);
  return folder;
}

}  // namespace trireme
