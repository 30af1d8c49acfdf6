// The list of tensor formats. A new one is a file with its function, which returns nullptr for a path that is not of
// its format, and a line here. They are asked in order; the last takes whatever is left, or refuses it.
#include "checkpoint/tensor_file.h"

#include "core/base/error.h"

// clang-format off
#define TRIREME_TENSOR_FORMATS(TENSOR_FORMAT) \
  TENSOR_FORMAT(OpenStoreFile)                \
  TENSOR_FORMAT(OpenSafetensorsFile)          \
  TENSOR_FORMAT(OpenHfDirectoryFile)
// clang-format on

namespace trireme {

#define DECLARE(open) std::unique_ptr<TensorFile> open(const std::filesystem::path& path);
TRIREME_TENSOR_FORMATS(DECLARE)
#undef DECLARE

std::unique_ptr<TensorFile> OpenTensorFile(const std::filesystem::path& path) {
#define TRY(open) \
  if (std::unique_ptr<TensorFile> file = open(path)) return file;
  TRIREME_TENSOR_FORMATS(TRY)
#undef TRY
  throw InputError(path.string(), ": holds no tensors");
}

}  // namespace trireme
