// HfDirectory: the weights of a Hugging Face model directory, one file or many, by tensor name. Reads
// model.safetensors, or model.safetensors.index.json and its shards; opens each shard once, when first asked
// for. Knows nothing of models and configs.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace trireme {

class HfDirectory {
 public:
  // Refuses a directory without weights, and an index that names a file or tensor that is not there.
  explicit HfDirectory(const std::filesystem::path& directory);

  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const { return shard_of_.contains(name); }
  // The tensor's view stays valid as long as the directory does. A name that is not there is refused, with
  // the nearest.
  const TensorView& Find(const std::string& name) const;
  // The file that holds the tensor, for messages.
  std::filesystem::path FileOf(const std::string& name) const;

  const std::filesystem::path& path() const { return directory_; }

 private:
  void ReadIndex(const std::filesystem::path& index);

  std::filesystem::path directory_;
  std::map<std::string, std::string> shard_of_;  // tensor name to file name
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> shards_;
};

}  // namespace trireme
