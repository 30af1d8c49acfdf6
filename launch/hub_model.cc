#include "launch/hub_model.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "launch/host_turns.h"
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

}  // namespace

std::string ModelHere(const std::string& path, const std::string& key, Job& job, HubParts parts) {
  const std::optional<HubName> name = ParseHubName(path);
  if (!name || !WhyNoDownloads().empty()) return ModelDirectory(path, key);
  FetchInTurns(job, [&] { return IsMissing(path, *name, parts); }, [&] { Download(path, *name, key, parts); });
  return ModelDirectory(path, key);
}

}  // namespace trireme
