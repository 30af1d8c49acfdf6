// HfDirectory: the weights of a model directory by Hugging Face name: model.safetensors, or
// model.safetensors.index.json and its shards, or a checkpoint of ours. Opens each file once, on first use.
// Knows nothing of models and configs.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/tensor_source.h"

namespace trireme {

class HfDirectory : public TensorSource {
 public:
  // Refuses a directory without weights, and an index that lists a missing file or tensor.
  explicit HfDirectory(const std::filesystem::path& directory);

  // In the order in which a model runs through them, as far as names tell: layers.2 comes before layers.10.
  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const override { return shard_of_.contains(name); }
  // The view stays valid until the next call: a checkpoint's tensor is assembled from its pieces. Refuses an
  // unknown name, and reports the nearest.
  const TensorView& Find(const std::string& name) const override;
  // Only dtype and shape: `bytes` may be empty.
  TensorView Describe(const std::string& name) const override;
  // The file that holds the tensor, for messages.
  std::filesystem::path FileOf(const std::string& name) const override;
  // Releases the memory of the tensor's pages.
  void Release(const std::string& name) const;

  const std::filesystem::path& path() const { return directory_; }
  StoreReader* store() const { return store_.get(); }  // nullptr: not a checkpoint of ours

 private:
  void ReadIndex(const std::filesystem::path& index);
  [[noreturn]] void RefuseName(const std::string& name) const;

  std::filesystem::path directory_;
  std::map<std::string, std::string> shard_of_;  // tensor name to file name
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> shards_;
  std::unique_ptr<StoreReader> store_;
  mutable std::string assembled_name_;  // the checkpoint's tensor in assembled_
  mutable TensorView assembled_;
  mutable std::vector<std::byte> memory_;
};

}  // namespace trireme
