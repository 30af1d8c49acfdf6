#include "web/hub/free_space.h"

#include <system_error>

#include "core/base/error.h"
#include "web/hub/download_progress.h"

namespace trireme {

void RefuseWithoutSpace(const std::filesystem::path& folder, int64_t missing_bytes, const HubSource& hub) {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  if (unknown || space.available == static_cast<std::uintmax_t>(-1) ||
      static_cast<std::uintmax_t>(missing_bytes) <= space.available)
    return;
  throw InputError(SizeText(missing_bytes), " are missing, and ", folder.string(), " has room for ",
                   SizeText(static_cast<int64_t>(space.available)), "; free some, or set ", hub.cache_variable(),
                   " to another directory");
}

}  // namespace trireme
