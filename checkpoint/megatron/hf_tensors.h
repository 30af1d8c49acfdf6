// HfTensors: Megatron tensors under their Hugging Face names, assembled when they are read.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/megatron/names.h"
#include "checkpoint/megatron/tensors.h"

namespace trireme {

class HfTensors {
 public:
  enum class Layers { kAll, kAny };
  // Refuses tensors that the model does not have, and of a model's own weights another number of layers. `tensors`
  // outlive it.
  HfTensors(const MegatronTensors& tensors, const MegatronNames& names, Layers layers = Layers::kAll);

  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const { return parts_.contains(name); }
  DType dtype(const std::string& name) const { return parts_.at(name).tensor->dtype; }
  Shape shape(const std::string& name) const;
  void Read(const std::string& name, void* target) const;  // row-major, in its own dtype
  const std::string& MegatronNameOf(const std::string& name) const { return parts_.at(name).name; }
  const std::filesystem::path& FileOf(const std::string& name) const { return parts_.at(name).tensor->file; }

 private:
  struct Part {
    std::string name;  // Megatron's
    const MegatronTensor* tensor;
    NamedRows rows;
  };

  std::map<std::string, Part> parts_;
};

}  // namespace trireme
