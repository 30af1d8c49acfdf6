#include "checkpoint/stored_weights.h"

// clang-format off
#define TRIREME_STORED_FORMATS(STORED_FORMAT) \
  STORED_FORMAT(OpenMegatronWeights)
// clang-format on

namespace trireme {

#define DECLARE(open) \
  std::unique_ptr<StoredWeights> open(const std::filesystem::path& directory, const std::filesystem::path& config);
TRIREME_STORED_FORMATS(DECLARE)
#undef DECLARE

std::unique_ptr<StoredWeights> OpenStoredWeights(const std::filesystem::path& directory,
                                                 const std::filesystem::path& config) {
#define TRY(open) \
  if (std::unique_ptr<StoredWeights> weights = open(directory, config)) return weights;
  TRIREME_STORED_FORMATS(TRY)
#undef TRY
  return nullptr;
}

}  // namespace trireme
