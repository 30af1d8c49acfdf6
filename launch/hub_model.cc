#include "launch/hub_model.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "web/hub/hub_cache.h"
#include "web/hub/hub_settings.h"

namespace trireme {
namespace {

bool IsMissing(const std::string& path, const HubName& name, HubParts parts) {
  if (PathExists(path)) return false;
  const CachedModel cached = FindCached(name);
  return parts == HubParts::kAll ? !cached.whole : cached.directory.empty();
}

void Download(const std::string& path, const HubName& name, const std::string& key, HubParts parts) {
  try {
    DownloadModel(name, parts);
  } catch (const Error& error) {
    const CachedModel cached = FindCached(name);
    if (cached.directory.empty())
      throw InputError(key, ": ", NotCached(path, cached), ", and cannot be downloaded: ", error.what());
    // Perhaps its configuration is all that is needed: whoever reads the weights says if not.
    TRIREME_LOG(WARNING) << key << ": " << cached.directory
                         << " has no weights, and they cannot be downloaded: " << error.what();
  }
}

// A download takes as long as it takes: ranks that wait for it do not report that.
void WaitForDownload(Job& job) {
  if (job.waits() != nullptr) job.waits()->set_limit(0);
  job.Barrier();
  if (job.waits() != nullptr) job.waits()->set_limit(MpiWaits::DefaultLimit_s());
}

}  // namespace

std::string ModelHere(const std::string& path, const std::string& key, Job& job, HubParts parts) {
  const std::optional<HubName> name = ParseHubName(path);
  if (!name || !WhyNoDownloads().empty()) return ModelDirectory(path, key);
  if (job.Max(IsMissing(path, *name, parts) ? 1 : 0) == 0) return ModelDirectory(path, key);
  if (job.rank() == 0 && IsMissing(path, *name, parts)) Download(path, *name, key, parts);
  WaitForDownload(job);
  if (job.rank() != 0 && job.local_rank() == 0 && IsMissing(path, *name, parts)) Download(path, *name, key, parts);
  WaitForDownload(job);
  return ModelDirectory(path, key);
}

}  // namespace trireme
