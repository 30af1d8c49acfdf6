// WrittenModel: the tensors of a Megatron checkpoint that is to be written, over the whole model, and their elements
// out of Hugging Face tensors. Knows no files and no ranks.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/megatron/export.h"
#include "checkpoint/megatron/names.h"

namespace trireme {

struct WrittenTensor {
  std::string name;  // as CommonName gives it
  DType dtype = DType::kFp32;
  Shape shape;
  std::vector<NamedRows> parts;
};

class WrittenModel {
 public:
  // Both outlive it. Refuses what cannot be written.
  WrittenModel(const HfDirectory& source, const MegatronExport& options);

  const std::vector<WrittenTensor>& tensors() const { return tensors_; }
  const WrittenTensor* Find(const std::string& name) const;  // nullptr: the model has none
  const MegatronNames& names() const { return names_; }
  const Json& config() const { return config_; }
  int64_t mtp_layers() const { return mtp_layers_; }
  int64_t experts() const { return experts_; }
  // Whether a decoder layer, by its number, or an MTP layer after them, has experts.
  bool HasExperts(int64_t layer) const { return layers_with_experts_.contains(layer); }

  // Boxes of a tensor one below the other, row-major; rows that pad the vocabulary are zeros. Refuses elements that the
  // tensor's type cannot represent.
  std::vector<std::byte> Read(const WrittenTensor& tensor, const std::vector<Box>& boxes) const;

 private:
  void FindTensors();
  void RefuseOtherCopy(const std::string& copy, const std::string& original) const;
  DType TypeOf(const std::string& hf_name) const;
  void ReadPart(const WrittenTensor& tensor, const NamedRows& part, const Box& box, void* target) const;

  const HfDirectory& source_;
  const MegatronExport& options_;
  Json config_;
  MegatronNames names_;
  std::vector<WrittenTensor> tensors_;
  std::set<int64_t> layers_with_experts_;
  int64_t mtp_layers_ = 0, experts_ = 0;
};

}  // namespace trireme
