// HfDirectory: the weights of a model directory by Hugging Face name: model.safetensors, or
// model.safetensors.index.json and its shards, a checkpoint of ours, or one of another system (stored_weights.h). Opens
// each file once, on first use. Tensors that files hold packed (packed_format.h), or in 4 or 8 bits (packed_tensors.h),
// appear decoded, under the name that they have in plain files. Knows nothing of models and configs.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/packed_format.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/stored_weights.h"
#include "checkpoint/tensor_source.h"

namespace trireme {

class HfDirectory : public TensorSource {
 public:
  enum class Packed { kDecoded, kAsStored };
  // Refuses a directory without weights, and an index that lists a missing file or tensor.
  // `model_files` has config.json and the tokenizer, if the directory itself has not.
  explicit HfDirectory(const std::filesystem::path& directory, Packed packed = Packed::kDecoded,
                       const std::filesystem::path& model_files = {});

  // In the order in which a model runs through them, as far as names tell: layers.2 comes before layers.10.
  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const override { return in_parts_.contains(name) || IsPlain(name); }
  // The view stays valid until the next call: a checkpoint's tensor is assembled from its pieces, a packed one decoded.
  // Refuses an unknown name, and reports the nearest.
  const TensorView& Find(const std::string& name) const override;
  std::optional<PackedTensor> FindPacked(const std::string& name) const override;
  // Only dtype and shape: `bytes` may be empty.
  TensorView Describe(const std::string& name) const override;
  // The file that holds the tensor, for messages.
  std::filesystem::path FileOf(const std::string& name) const override;
  // Releases the memory of the tensor's pages.
  void Release(const std::string& name) const;

  const std::filesystem::path& path() const { return directory_; }
  const std::filesystem::path& model_files() const { return model_files_; }
  bool is_of_other_system() const { return stored_ != nullptr; }
  bool has_packed() const { return !in_parts_.empty() || !few_bits_.empty(); }
  bool has_few_bits() const { return !few_bits_.empty(); }  // bitsandbytes' 4 or 8
  StoreReader* store() const { return store_.get(); }       // nullptr: not a checkpoint of ours

 private:
  struct InParts {
    const PackedFormat* format;
    std::vector<std::string> parts;  // names in the files; empty: missing
  };

  void ReadIndex(const std::filesystem::path& index);
  void FindParts();
  void FindFewBits();
  DType ConfigType() const;
  bool IsPlain(const std::string& name) const { return shard_of_.contains(name) && !hidden_.contains(name); }
  const TensorView& FindStored(const std::string& name) const;
  PackedFormat::Parts PartsOf(const InParts& packed) const;
  TensorView DescribeParts(const std::string& name, const InParts& packed) const;
  // Fills assembled_ with the checkpoint's or the decoded tensor.
  const TensorView& Assemble(const std::string& name) const;
  [[noreturn]] void RefuseName(const std::string& name) const;

  std::filesystem::path directory_, model_files_;
  std::map<std::string, std::string> shard_of_;  // tensor name to file name
  std::map<std::string, InParts> in_parts_;      // by the decoded tensor's name
  std::map<std::string, std::string> few_bits_;  // matrix to the name of the tensor that tells its 4 or 8 bits
  std::set<std::string> hidden_;                 // parts of all of them
  DType config_type_ = DType::kBf16;             // of the model, as config.json says it: what 8 bits decode to
  std::string quantisation_config_;              // what config.json says of packed weights
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> shards_;
  std::unique_ptr<StoreReader> store_;
  std::unique_ptr<StoredWeights> stored_;  // of another system
  mutable std::string assembled_name_;     // the tensor in assembled_
  mutable TensorView assembled_;
  mutable std::vector<std::byte> memory_;
};

}  // namespace trireme
