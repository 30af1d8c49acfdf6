// TensorSource: an interface to named tensors: a model's directory, an adapter's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/packed_tensors.h"
#include "checkpoint/safetensors.h"

namespace trireme {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual bool Has(const std::string& name) const = 0;
  // The view stays valid until the next call. Refuses an unknown name.
  virtual const TensorView& Find(const std::string& name) const = 0;
  // Only dtype and shape: `bytes` may be empty.
  virtual TensorView Describe(const std::string& name) const = 0;
  // The same of a matrix that the source has in 4 bits, as it has it; nullopt: it has not. Find() decodes it.
  virtual std::optional<PackedTensor> FindPacked(const std::string& /*name*/) const { return std::nullopt; }
  // The file that holds the tensor, for messages.
  virtual std::filesystem::path FileOf(const std::string& name) const = 0;
};

}  // namespace trireme
