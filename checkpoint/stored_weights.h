// StoredWeights: a model's weights by Hugging Face name in a format that has other names or pieces, so that each tensor
// is assembled when it is read. A format is a function in the list of stored_weights.cc.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace trireme {

class StoredWeights {
 public:
  virtual ~StoredWeights() = default;
  virtual std::vector<std::string> Names() const = 0;
  virtual TensorView Describe(const std::string& name) const = 0;           // dtype and shape
  virtual void Read(const std::string& name, void* target) const = 0;       // row-major
  virtual std::filesystem::path FileOf(const std::string& name) const = 0;  // for messages
};

// nullptr: the directory is of no such format. `config` is the model's config.json, or the directory that has it.
std::unique_ptr<StoredWeights> OpenStoredWeights(const std::filesystem::path& directory,
                                                 const std::filesystem::path& config);

}  // namespace trireme
