#include "session/derived_directory.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/io/file_system.h"
#include "core/io/user_cache.h"

namespace trireme {

namespace fs = std::filesystem;

std::string DerivedDirectory(const Config& config, const std::string& digest, const std::string& what,
                             const std::function<void(const fs::path& folder)>& fill) {
  const fs::path from = fs::absolute(config.model().path());
  const fs::path cache =
      config.data().cache().empty() ? UserCache("models", "data.cache") : fs::path(config.data().cache()) / "models";
  const std::string name = from.has_filename() ? from.filename().string() : from.parent_path().filename().string();
  const fs::path to = cache / Concat(name, "-", digest);
  if (PathExists(to)) return to.string();
  MakeUserCache(cache, what, "data.cache");
  const FileLock lock(to.string() + ".lock");
  if (PathExists(to)) return to.string();
  const fs::path aside = to.string() + ".part";
  RemoveAll(aside);
  CreateFolder(aside);
  fill(aside);
  RenameAndSync(aside, to);
  TRIREME_LOG(INFO) << from.string() << ", as " << what << ", is in " << to.string();
  return to.string();
}

}  // namespace trireme
