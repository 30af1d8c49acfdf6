// TensorList: the tensors of anything that holds some, whatever its format (tensor_file.h). For inspecting and
// comparing, one tensor in memory at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/tensor_file.h"

namespace trireme {

class TensorList {
 public:
  // Refuses a path without tensors, and lists what would be accepted.
  explicit TensorList(const std::filesystem::path& path);

  const std::vector<ListedTensor>& tensors() const { return tensors_; }
  const ListedTensor* Find(const std::string& name) const;  // nullptr: no such tensor
  // Row-major; valid until the next call.
  std::span<const std::byte> Read(const ListedTensor& tensor);
  uint32_t Digest(const ListedTensor& tensor);  // crc32c of the full tensor, independent of its pieces

 private:
  std::unique_ptr<TensorFile> file_;
  std::vector<ListedTensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
};

std::string DigestText(uint32_t digest);  // eight digits

// How two tensors of one shape differ: empty if all elements are equal, whatever their dtypes.
std::string CompareTensors(TensorList& a, const ListedTensor& one, TensorList& b, const ListedTensor& other);

}  // namespace trireme
