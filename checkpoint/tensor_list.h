// TensorList: the tensors of anything that holds some: a checkpoint with its optimizer states, a Hugging Face
// or PEFT directory, a safetensors file. For looking and comparing, one tensor in memory at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store_reader.h"

namespace trireme {

struct ListedTensor {
  std::string
      name;  // of a checkpoint's states with what they are: "exp_avg/NAME"; weights by their name alone
  DType dtype = DType::kFp32;
  Shape shape;
  int pieces = 0;  // of a checkpoint; 0 elsewhere

  int64_t bytes() const { return Elements(shape) * ByteSize(dtype); }
};

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
  std::unique_ptr<StoreReader> store_;
  std::unique_ptr<HfDirectory> directory_;
  std::unique_ptr<SafetensorsFile> file_;
  std::vector<ListedTensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<std::byte> memory_;
};

std::string DigestText(uint32_t digest);  // eight digits

// How two tensors of one shape differ: nothing where all elements are equal, whatever their types.
std::string CompareTensors(TensorList& a, const ListedTensor& one, TensorList& b, const ListedTensor& other);

}  // namespace trireme
