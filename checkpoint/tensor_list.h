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
  // Refuses what holds no tensors, saying what would.
  explicit TensorList(const std::filesystem::path& path);

  const std::vector<ListedTensor>& tensors() const { return tensors_; }
  const ListedTensor* Find(const std::string& name) const;  // nullptr: not there
  // Row-major; valid until the next call.
  std::span<const std::byte> Read(const ListedTensor& tensor);
  uint32_t Digest(const ListedTensor& tensor);  // crc32c of the whole tensor, whatever its pieces

 private:
  std::unique_ptr<TensorFile> file_;
  std::vector<ListedTensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
};

std::string DigestText(uint32_t digest);  // eight digits

// How two tensors of one shape differ: nothing where all elements are equal, whatever their types.
std::string CompareTensors(TensorList& a, const ListedTensor& one, TensorList& b, const ListedTensor& other);

}  // namespace trireme
