// TensorFile: a file or directory that holds named tensors, in any of the formats of the list in tensor_file.cc. For
// listing and reading whole tensors; how a model's weights are sharded over ranks is TensorSource's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct ListedTensor {
  std::string name;  // of a checkpoint's optimizer states "STATE/NAME"; weights by their name alone
  DType dtype = DType::kFp32;
  Shape shape;
  int pieces = 0;  // of a checkpoint; 0 elsewhere

  int64_t bytes() const { return Elements(shape) * ByteSize(dtype); }
};

class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual std::vector<ListedTensor> List() const = 0;
  // Row-major; valid until the next call.
  virtual std::span<const std::byte> Read(const ListedTensor& tensor) = 0;
};

// Refuses what holds no tensors, listing what would.
std::unique_ptr<TensorFile> OpenTensorFile(const std::filesystem::path& path);

}  // namespace trireme
